package tenants

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// policy is what policy files have in common while they are read: the tiers, which tenants of all of them may name.
type policy struct {
	given *given
	tiers map[string]draft // a tier is a tenant without a name; Source is where it is defined
}

// policyFile is a policy file while it is read. Files that define no tier are read side by side.
type policyFile struct {
	*policy
	path string // in the loader's file system
	name string // as the user named it
	data []byte // until it is parsed
	r    *report

	waiting  []pair // tenants yet to be read
	shadow   *shade // of the file's tenants; nil if it says nothing
	overfull bool   // there are too many tenants, which has been reported
	tiered   bool   // it may define tiers
	runtime  bool   // it is no file, and its tenants stand in place of those of files
	unread   bool   // it could not be read at all, so what is missing may be in it
	tierless report // tenants whose tiers are missing
	sheet
}

// sheet is what a policy file says of tenants. A loader keeps it until the file changes, or what else it depends on.
type sheet struct {
	tenants []Tenant
	places  []*places // of the tenants that are no teams, sorted by their names
	shown   string    // the file's name in it
	under   sum       // of the tiers and settings under which it was read
	sums    []sum     // of the tenants in a snapshot, 0 where there was none yet,
	config  sum       // with this config
}

// shade is a file's word on the shadow of its tenants.
type shade struct {
	on bool
	at place
}

func newPolicy(of *given) *policy { return &policy{given: of, tiers: map[string]draft{}} }

func (p *policy) file(path, name string, data []byte) *policyFile {
	r := strictyaml.NewReport()
	return &policyFile{policy: p, path: path, name: name, data: data, r: r}
}

// definesTiers reports whether a file may define tiers: whether the word is in its text, or could be in it in an escaped form.
func (f *policyFile) definesTiers() bool {
	return bytes.Contains(f.data, []byte("tiers")) || bytes.IndexByte(f.data, '\\') >= 0
}

// readTiersOf reads the files that may define tiers, all but their tenants, and answers a digest of what all tenants depend on.
func (p *policy) readTiersOf(files []*policyFile) sum {
	h := sha256.New()
	fmt.Fprintf(h, "%s %q", p.given.zone, p.given.pools)
	for _, f := range files {
		if f.data == nil || !f.definesTiers() {
			continue
		}
		f.tiered = true
		fmt.Fprintf(h, "%q %q", f.name, f.data)
		f.open()
	}
	return sum(h.Sum(nil))
}

// open parses the file, and reads all but its tenants.
func (f *policyFile) open() {
	doc := parsePolicy(f.r, f.name, f.data)
	f.data = nil
	f.unread = doc == nil
	if f.unread {
		return
	}
	policyShape.Read(strictyaml.Root(f.r, doc), f)
	if f.shadow != nil && len(f.waiting) == 0 {
		f.r.Add(f.shadow.at, "shadow: does nothing in a file that defines no tenant; write it in theirs, or in a tier")
	}
}

// readAll reads the tenants of all files, now that all tiers are known.
func readAll(files []*policyFile) {
	sideBySide(len(files), func(i int) { files[i].read() })
}

// sideBySide does n things on all processors, and waits for them.
func sideBySide(n int, do func(i int)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		group.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				do(int(i - 1))
			}
		})
	}
	group.Wait()
}

// read reads the file's tenants, unless its sheet is known.
func (f *policyFile) read() {
	if f.tenants == nil {
		if f.data != nil {
			f.open()
		}
		f.readTenants()
		f.waiting = nil
		slices.SortFunc(f.places, func(a, b *places) int { return strings.Compare(a.tenant, b.tenant) })
	}
	if f.config != f.given.config || f.sums == nil {
		f.config = f.given.config
		f.sums = make([]sum, len(f.tenants))
	}
}

// listed is a tenant that was read, and where the digest of what becomes of it is kept.
type listed struct {
	*Tenant
	sum  *sum
	file *policyFile
}

// gather puts the files' tenants into one list, sorted by name, of which r is told what is wrong with them.
// partial says that some were not read, so tiers that are missing may be in them.
func gather(r *report, files []*policyFile, partial bool, most int64) (list []listed) {
	n := 0
	replaced := map[string]bool{}
	for _, f := range files {
		n += len(f.tenants)
		partial = partial || f.unread
		if f.runtime {
			for _, p := range f.places {
				replaced[p.tenant] = true
			}
		}
	}
	list = make([]listed, 0, n)
	all := make([]*places, 0, n)
	order := -1
	stood := map[string]int{} // of those that are replaced, in the files' order
	for _, f := range files {
		for _, p := range f.places {
			if f.runtime || !replaced[p.tenant] {
				all = append(all, p)
			}
		}
		problems := f.r.Problems
		if !partial {
			problems = append(problems, f.tierless.Problems...)
		}
		for _, p := range problems {
			r.Add(place{File: p.File, Line: p.Line, Col: p.Col}, "%s", p.What)
		}
		maps.Copy(r.Refused, f.r.Refused)
		for path, at := range f.r.Places {
			if !strings.HasPrefix(path, ofTenants) {
				r.Places[path] = at
			}
		}
		for i := range f.tenants {
			t := &f.tenants[i]
			order++
			t.Order = order
			if root := rootOf(t.Name); replaced[root] {
				at, there := stood[root]
				switch {
				case f.runtime && there:
					t.Order = at
				case !f.runtime && !there:
					stood[root] = order
				}
				if !f.runtime {
					continue
				}
			}
			if int64(len(list)) >= most {
				r.Add(f.at(t.Name), "there are more than %d tenants and teams, as many as max_tenants allows; raise it in the config", most)
				return list
			}
			list = append(list, listed{t, &f.sums[i], f})
		}
	}
	if len(stood) > 0 {
		slices.SortStableFunc(list, func(a, b listed) int { return cmp.Compare(a.Order, b.Order) })
		for i := range list {
			list[i].Order = i
		}
	}
	slices.SortFunc(list, func(a, b listed) int { return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Order, b.Order)) })
	slices.SortStableFunc(all, func(a, b *places) int { return strings.Compare(a.tenant, b.tenant) })
	r.More = func(path string) (place, bool) { return placeOf(all, path) }
	return once(r, list)
}

// once leaves tenants out of a sorted list that are defined again, with their teams, and tells r.
func once(r *report, list []listed) []listed {
	kept := list[:0]
	again := ""           // the last tenant that is defined again
	var first *policyFile // where that is defined first
	for _, t := range list {
		root := rootOf(t.Name)
		team := root != t.Name
		switch n := len(kept); {
		case team && root == again && t.file != first:
		case team || n == 0 || t.Name != kept[n-1].Name:
			kept = append(kept, t)
		default:
			again = t.Name
			first = kept[n-1].file
			r.Add(t.file.at(t.Name), "tenant %s is defined twice; the other is at %s, remove one", strictyaml.Show(t.Name), kept[n-1].Source)
		}
	}
	return kept
}

// at is where one of the file's tenants, or a tenant of its team, is defined.
func (f *policyFile) at(name string) place {
	at, _ := placeOf(f.places, ofTenants+rootOf(name))
	return at
}

func (f *policyFile) readTiers(v value) {
	list, _ := v.Pairs()
	for _, entry := range list {
		if len(f.tiers) >= maxTiers {
			f.r.Add(entry.At, "there are more than %d tiers, which is as many as are supported", maxTiers)
			return
		}
		checkKeyName(entry)
		if first, dup := f.tiers[entry.Key]; dup {
			f.r.Add(entry.At, "tier %s is defined twice; the other is at %s, remove one", strictyaml.Show(entry.Key), first.Source)
			continue
		}
		tier := newDraft(f.given)
		tier.Source = entry.At.String()
		tierShape.Read(entry.Value, &tier)
		f.checkTier(entry.Value, &tier)
		tier.Tier = entry.Key
		tier.groupRefused = f.r.Refused[strictyaml.Child(entry.Path, "group")]
		f.tiers[entry.Key] = tier
	}
}

func (f *policyFile) readTenants() {
	around := f.r.Places
	defer func() { f.r.Places = around }()
	found := map[string]place{} // of one tenant
	f.r.Places = found
	f.tierless.Places = found
	for _, e := range f.waiting {
		if f.r.Full() || f.tierless.Full() || f.crowded(e) {
			return
		}
		clear(found)
		found[e.Path] = around[e.Path]
		f.readTenant(e)
		f.places = append(f.places, placesOf(f.name, e.Key, found))
	}
}

func (f *policyFile) readTenant(e pair) {
	checkTenantName(e)
	list, ok := e.Pairs()
	if !ok {
		return
	}
	t, tierKnown := f.template(list)
	t.Name = e.Key
	t.Source = e.At.String()
	if f.shadow != nil && !strictyaml.Has(list, "shadow") {
		t.Shadow = f.shadow.on
		f.r.Places[strictyaml.Child(e.Path, "shadow")] = f.shadow.at
	}
	tenantShape.ReadPairs(list, &t)
	if tierKnown {
		f.checkMember(e.Value, &t)
	}
	f.keep(&t)
}

// crowded reports the tenant or team that is one too many.
func (f *policyFile) crowded(e pair) bool {
	if len(f.tenants) < maxFileTenants {
		return false
	}
	if !f.overfull {
		f.r.Add(e.At, "there are more than the %d tenants and teams that a policy file may have; split it", maxFileTenants)
	}
	f.overfull = true
	return true
}

// template is the draft to start from: a copy of the tier that the pairs name, or the defaults. known is false when
// they name a tier that is not there.
func (f *policyFile) template(list []pair) (t draft, known bool) {
	i := slices.IndexFunc(list, func(e pair) bool { return e.Key == "tier" })
	if i < 0 {
		return newDraft(f.given), true
	}
	name := list[i].Value.Named()
	if tier, ok := f.tiers[name]; ok {
		return tier, true
	}
	if name != strictyaml.Unreadable {
		f.r.Refused[list[i].Path] = true
		f.tierless.At(list[i].Path, "there is no tier %s; %s", strictyaml.Show(name), strictyaml.Advise(name, slices.Collect(maps.Keys(f.tiers))))
	}
	return newDraft(f.given), false
}

// checkTier complains about a tenant_weight in a tier whose tenants share nothing.
func (f *policyFile) checkTier(v value, tier *draft) {
	path := strictyaml.Child(v.Path, "tenant_weight")
	if _, written := f.r.Places[path]; written && !tier.group && !f.r.Refused[strictyaml.Child(v.Path, "group")] {
		f.r.At(path, "does nothing in a tier that is not a group; write weight instead, or group: true")
	}
}

// checkMember complains about the weight of a tenant that belongs to the other kind of tier.
func (f *policyFile) checkMember(v value, t *draft) {
	own := strictyaml.Child(v.Path, "tenant_weight")
	shared := strictyaml.Child(v.Path, "weight")
	if _, written := f.r.Places[own]; written && !t.group && !f.tiers[t.Tier].groupRefused {
		f.r.At(own, "does nothing, since the tenant is in no tier with group: true; write weight instead")
	}
	if _, written := f.r.Places[shared]; written && t.group {
		f.r.At(shared, "belongs to the group and is said in its tier, %s; write tenant_weight instead", strictyaml.Show(t.Tier))
	}
}

// keep adds a finished draft and reads its teams.
func (f *policyFile) keep(d *draft) {
	d.divideByKeys(f.r)
	f.tenants = append(f.tenants, d.tenant())
	for _, e := range d.teams {
		f.readTeam(d, e)
	}
}
