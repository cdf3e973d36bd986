package tenants

import (
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

// keyDraft is a key while it is read.
type keyDraft struct {
	Key
	zone   *time.Location
	limits MemberLimits
}

// keyShape is a key that is written as a mapping.
var keyShape = shape[keyDraft]{
	Fields: slices.Concat([]field[keyDraft]{
		{
			Name: "hash", About: "The hash of the key, as llmgov keys new prints it.", Kind: hashKind,
			Read: func(v value, k *keyDraft) { k.Hash = readKeyHash(v) }, Need: "write hash: sha256:…, made with llmgov keys new",
		},
		{
			Name: "name", About: "What the key is for. No two of a tenant have one name.", Kind: strictyaml.NameKind,
			Read: func(v value, k *keyDraft) { k.Name = v.Named() },
		},
		{
			Name: "expires", About: "The last day on which it is good, in the config's timezone, or the instant at which it ends.",
			Kind: strictyaml.StringKind(`^2[0-9]{3}-[0-9]{2}-[0-9]{2}(T.*)?$`),
			Read: func(v value, k *keyDraft) { k.Expires = readExpiry(v, k.zone) },
		},
	}, keyLimitFields()),
	Short: "hash",
}

// keyLimitFields are those of a member: a key with limits is one.
func keyLimitFields() (list []field[keyDraft]) {
	for _, f := range memberShape.Fields {
		list = append(list, field[keyDraft]{
			Name: f.Name, About: f.About, Kind: f.Kind, Read: func(v value, k *keyDraft) { f.Read(v, &k.limits) },
		})
	}
	return list
}

func hashKind() schema { return strictyaml.TextKind(`^sha256:[0-9a-f]{64}$`)() }

// readKeyList reads a tenant's keys, and the limits of those that have some, by name. A refused entry, or a refused list, reads as the zero hash.
func readKeyList(v value, zone *time.Location) ([]Key, map[string]MemberLimits) {
	list, ok := v.Items()
	if !ok {
		return []Key{{}}, nil
	}
	limits := map[string]MemberLimits{}
	list = atMost(v, list, maxEntries)
	keys := make([]Key, len(list)) // none, where they are made at run time
	for i, it := range list {
		keys[i] = readKey(it, zone, limits)
	}
	return keys, limits
}

func readKey(v value, zone *time.Location, limits map[string]MemberLimits) Key {
	k := keyDraft{zone: zone, limits: MemberLimits{Weight: defaultWeight}}
	list, _ := keyShape.Read(v, &k)
	if slices.ContainsFunc(list, func(p pair) bool {
		return slices.ContainsFunc(memberShape.Fields, func(f field[MemberLimits]) bool { return f.Name == p.Key })
	}) {
		if k.Name == "" {
			v.Problem("has limits and no name, by which it is counted; give it one")
		}
		limits[MemberOf(KeyMember(k.Name))] = k.limits
	}
	return k.Key
}

// readKeyHash reads the hash of a key. No message shows it, because it may be a key itself, by mistake.
func readKeyHash(v value) KeyHash {
	text, ok := v.Scalar()
	if !ok {
		return KeyHash{}
	}
	h, ok := keyfile.ParseHash(text)
	if ok {
		return h
	}
	if strings.HasPrefix(strings.ToLower(text), keyfile.HashPrefix) {
		v.Problem("a key of %d characters is not sha256: and 64 lower-case hexadecimal digits; make one with llmgov keys hash",
			len(text))
		return KeyHash{}
	}
	v.Problem("value (not shown) is not a key's hash; write sha256:… as printed by llmgov keys hash")
	return KeyHash{}
}

// The years in which a key may end: enough for anybody, and far from the zero time, which is never.
const firstYear, lastYear = 2000, 2999

// readExpiry reads when a key ends: an instant, or a day, at whose end it does.
func readExpiry(v value, zone *time.Location) time.Time {
	text, ok := v.Scalar()
	if !ok {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		at, err = time.Parse(time.DateOnly, text)
	}
	switch {
	case err != nil:
		v.Problem("%s is not a date; write a day such as 2027-01-31, or an instant such as 2027-01-31T18:00:00Z", v.Say(text))
		return time.Time{}
	case !goodExpiry(at):
		v.Problem("%s is out of range; write a year from %d to %d", v.Say(text), firstYear, lastYear)
		return time.Time{}
	}
	if len(text) == len(time.DateOnly) {
		at = EndOf(at, zone)
	}
	return at.UTC()
}

// EndOf is when a day is over in a zone. Where clocks go ahead at midnight there is none, and it is over when they do.
func EndOf(day time.Time, zone *time.Location) time.Time {
	next := day.AddDate(0, 0, 1)
	at := time.Date(next.Year(), next.Month(), next.Day(), 0, 0, 0, 0, zone)
	if at.Day() != next.Day() { // by the clock of before
		_, at = at.ZoneBounds()
	}
	return at
}

func goodExpiry(at time.Time) bool { return at.Year() >= firstYear && at.Year() <= lastYear }

// keys checks that somebody can call as t, and that nobody else has its keys.
func (c *compiler) keys(t *Tenant, path string) {
	if len(t.Keys) == 0 && !c.cfg.keyless() && !c.parent[t.Index] && !c.written(strictyaml.Child(path, "keys")) && !c.written(strictyaml.Child(path, "teams")) {
		c.r.At(path, "has no keys, so nobody could use it; write keys: [sha256:…], made with llmgov keys new, or keys: [] if they are made at run time")
	}
	at := func(i int) string { return strictyaml.Item(strictyaml.Child(path, "keys"), i) }
	named := map[string]int{}
	for i, key := range t.Keys {
		if first, taken := named[key.Name]; taken {
			c.r.At(strictyaml.Child(at(i), "name"), "%s also names the key at %s; give each its own",
				strictyaml.Show(key.Name), c.r.Place(at(first)).Or("an earlier place of the list"))
		} else if key.Name != "" && key.Name != strictyaml.Unreadable {
			named[key.Name] = i
		}
		if key.Hash == (KeyHash{}) {
			continue // refused already
		}
		first := c.byKey.slot(&key.Hash)
		if !first.used {
			*first = keySlot{key.Hash, keyAt{t.Index, &t.Keys[i]}, true}
			continue
		}
		owner := &c.tenants[first.at.tenant]
		where := c.r.Place(strictyaml.Item(strictyaml.Child(owner.path(), "keys"), slices.IndexFunc(owner.Keys, func(k Key) bool { return k.Hash == key.Hash }))).Or("its list")
		if owner == t {
			c.r.At(at(i), "%s… is listed twice; the other is at %s, remove one", key.Hash.String()[:15], where)
			continue
		}
		c.r.At(at(i), "%s… is also a key of tenant %s at %s; give each its own", key.Hash.String()[:15], strictyaml.Show(owner.Name), where)
	}
}
