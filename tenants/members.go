package tenants

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// Members divides the calls of a tenant's own keys and tokens among those who make them, whom no file lists: each has limits, budgets and a fair
// share of its tenant. They are told apart by what By says of a call; calls that say nothing are one member together.
type Members struct {
	By   MemberBy
	Each MemberLimits
	// Override is what single members have in place of Each, by name.
	Override map[string]MemberLimits
	// Listed says that only those in Override are told apart, and all others are one member together.
	Listed bool `json:",omitempty"`
}

// MemberBy says where a call has the name of its member.
type MemberBy struct {
	// Source is one of the words below.
	Source string
	// Of is the name of the claim or, as net/http spells it, of the header.
	Of string
}

// The sources of members' names.
const (
	ByClaim   = "claim"     // of a token
	ByHeader  = "header"    // of the request
	ByUser    = "body.user" // user of the body
	BySession = "session"   // the coding agent's run
	ByKey     = "key"       // the name of the key, or sub: and the subject of the token
)

// Claim is the claim that names the member whose call has a token; "" if none does.
func (b MemberBy) Claim() string {
	switch b.Source {
	case ByKey:
		return "sub"
	case ByClaim:
		return b.Of
	}
	return ""
}

// String is as files have it.
func (b MemberBy) String() string {
	switch b.Source {
	case ByHeader:
		return b.Source + "." + strings.ToLower(b.Of)
	case ByClaim:
		return b.Source + "." + b.Of
	}
	return b.Source
}

// MemberLimits are those of one member, over all pools.
type MemberLimits struct {
	// Weight is its claim on its tenant's share, beside that of other members. 0 becomes 1.
	Weight float64
	terms.Limits
	Budgets []Budget
	// Blocked is the key of a limit that is 0, so that every call is refused; "" if there is none.
	Blocked string `json:",omitempty"`
	// Until is when an override ends by itself, and Then what there is afterwards; the zero time is never, and nil what each has.
	Until time.Time     `json:",omitzero"`
	Then  *MemberLimits `json:",omitempty"`
}

// maxMemberName is the longest name of a member that stays as it is, in bytes.
const maxMemberName = 96

// memberName matches names that stay as they are.
var memberName = regexp.MustCompile(`^[A-Za-z0-9._@+:|=-]{1,96}$`)

// MemberOf is the name under which a caller counts who is called so. One that is too long, or has other characters than letters, digits and
// ._@+:|=- becomes a hash.
func MemberOf(called string) string {
	if called == "" || memberName.MatchString(called) && !strings.HasPrefix(called, hashedMember) {
		return called
	}
	sum := sha256.Sum256([]byte(called))
	return hashedMember + hex.EncodeToString(sum[:16])
}

const hashedMember = "sha256-"

// SubjectMember begins what a member by key is called who has a token, before its subject.
const SubjectMember = "sub:"

// KeyMember is what a member by key is called, given the name of the key. No key counts as a token's subject: a name that could be taken for one
// becomes a hash.
func KeyMember(name string) string {
	if strings.HasPrefix(name, SubjectMember) {
		return "key " + name
	}
	return name
}

// Counted is the name under which calls are counted whose caller is called so: of a tenant without members, its own.
func (t *Tenant) Counted(called string) string {
	if t.Members == nil {
		return t.Name
	}
	return terms.MemberName(t.Name, t.Members.Named(called))
}

// TenantOf finds the tenant of a name under which calls are counted, which may be a member's.
func (s *Snapshot) TenantOf(counted string) (*Tenant, bool) {
	return s.TenantByName(terms.OwnerOf(counted))
}

// Called is how messages name the member who is called so.
func (t *Tenant) Called(called string) string { return terms.Called(t.Counted(called)) }

// Named is the name of the member who is called so. Those of sessions and keys say what they are of.
func (m *Members) Named(called string) string {
	name := MemberOf(called)
	if _, own := m.Override[name]; m.Listed && !own {
		return ""
	}
	return m.counted(name)
}

// counted is the name under which a member counts, given its name in Override; see Plain.
func (m *Members) counted(name string) string {
	if name != "" && (m.By.Source == BySession || m.By.Source == ByKey) {
		return m.By.Source + ":" + name
	}
	return name
}

// MemberOrigin is the key of a limit that a counted member has at a time in files, and where it is written.
func (s *Snapshot) MemberOrigin(t *Tenant, member, key string, now time.Time) (spelled, from string) {
	if from := s.overridden(terms.MemberName(t.Name, member), key); from != "" {
		return strictyaml.Spell(key), from
	}
	path := strictyaml.Child("members", "each")
	member = t.Members.Plain(member)
	if t, _ := s.ofFiles(t.Name); t.Members.Of(member, now) != &t.Members.Each {
		path = strictyaml.Child(strictyaml.Child("members", "override"), member)
	}
	return strictyaml.Spell(strictyaml.Child(path, key)), cmp.Or(s.Origin(t, strictyaml.Child(path, key)), s.Origin(t, path), s.Origin(t, "members"))
}

// Plain is what a member is called, given that or the name under which it counts, with or without its tenant's. Override has it by this name.
func (m *Members) Plain(counted string) string {
	if _, name, is := terms.CutMember(counted); is {
		counted = name
	}
	if m.By.Source != BySession && m.By.Source != ByKey { // see Named
		return counted
	}
	return strings.TrimPrefix(counted, m.By.Source+":")
}

// limit sets a limit, of which 0 blocks.
func (l *MemberLimits) limit(k terms.Axis, amount int64) {
	*l.Amount(k) = amount
	switch {
	case amount == 0:
		l.Blocked = k.Key()
	case l.Blocked == k.Key():
		l.Blocked = ""
	}
}

// Of is what the member of a name has at a time.
func (m *Members) Of(name string, now time.Time) *MemberLimits {
	if o, ok := m.Override[name]; ok {
		for l := &o; l != nil; l = l.Then {
			if l.Until.IsZero() || now.Before(l.Until) {
				return l
			}
		}
	}
	return &m.Each
}

var membersField = field[draft]{
	Name: "members", About: "Who calls with its keys and tokens is told apart, and each member has limits, budgets and a fair share of its own. Teams have their own members.",
	Kind: func() schema { return membersShape.Schema(nil) }, Read: readMembers,
}

const bySource = `^(session|key|body\.user|claim\.` + claimPath + `|header\.[A-Za-z0-9-]{1,64})$`

// membersDraft is a Members while it is read.
type membersDraft struct {
	Members
	zone      *time.Location
	overrides []pair // to be read over each, wherever that stands
}

var membersShape = shape[membersDraft]{
	Fields: []field[membersDraft]{
		{
			Name: "by", About: "What names the member of a call: claim.NAME of its token, header.NAME, body.user, session: the run of a coding agent, or key: the name of its key, or sub: and the subject of its token.",
			Kind: strictyaml.TextKind(bySource), Read: func(v value, m *membersDraft) { m.By = readMemberBy(v) },
			Need: "write what names the member of a call: claim.sub, header.x-user, body.user, session or key",
		},
		{
			Name: "each", About: "What each member has.", Kind: func() schema { return memberShape.Schema(nil) },
			Read: func(v value, m *membersDraft) { memberShape.Read(v, &m.Each) },
		},
		{
			Name: "override", About: "What single members have in place of that, by name, key by key; with until for a time.",
			Kind: strictyaml.MapOf(anyName, func() schema { return overrideShape.Schema(nil) }, 1),
			Read: func(v value, m *membersDraft) { m.overrides, _ = v.Pairs() },
		},
	},
	Short: "by",
}

// memberShape has the limits of a member.
var memberShape = shape[MemberLimits]{Fields: slices.Concat(memberLimitFields(), []field[MemberLimits]{
	weightField("weight", "Claim on the tenant's share, relative to other members.", minWeight, maxWeight, func(m *MemberLimits) *float64 { return &m.Weight }),
	windowsField("Limits over other times and in other shapes than rolling minutes, at most 4.", func(m *MemberLimits) *terms.Limits { return &m.Limits }),
	{
		Name: "budgets", About: "Limits by calendar hour, day, week or month, or for life.", Kind: budgetList,
		Read: func(v value, m *MemberLimits) { m.Budgets = readBudgets(v) },
	},
})}

var overrideShape = shape[MemberLimits]{Fields: append(slices.Clone(memberShape.Fields), field[MemberLimits]{
	Name: "until", About: "The last day on which it holds, in the config's timezone, or the instant at which it ends.",
	Kind: strictyaml.StringKind(`^2[0-9]{3}-[0-9]{2}-[0-9]{2}(T.*)?$`),
	Read: func(value, *MemberLimits) {}, // read by readMembers, which knows the zone
})}

// memberLimitFields are short keys of limits, of which 0 blocks.
func memberLimitFields() (list []field[MemberLimits]) {
	for _, k := range terms.Axes {
		list = append(list, field[MemberLimits]{
			Name: k.Key(), About: "A member's " + inMinute(k) + "; 0 blocks it.", Kind: strictyaml.WholeKind(0, maxAmount),
			Read: func(v value, m *MemberLimits) { m.limit(k, v.Amount(0, maxAmount)) },
		})
	}
	return list
}

func readMemberBy(v value) (by MemberBy) {
	text, ok := v.Scalar()
	if !ok {
		return by
	}
	by, complaint := parseMemberBy(text)
	if complaint != "" {
		v.Problem("%s %s", v.Say(text), complaint)
	}
	return by
}

func parseMemberBy(text string) (by MemberBy, complaint string) {
	source, of, _ := strings.Cut(text, ".")
	switch {
	case text == ByUser || text == BySession || text == ByKey:
		return MemberBy{Source: text}, ""
	case source == ByClaim && claimName.MatchString(of):
		return MemberBy{ByClaim, of}, ""
	case source == ByHeader && hintName.MatchString(of):
		by = MemberBy{ByHeader, textproto.CanonicalMIMEHeaderKey(of)}
		if slices.Contains(secretHeaders, by.Of) {
			return by, "carries a key; choose a header that says who calls"
		}
		return by, ""
	}
	return by, "names no member; write claim.sub, header.x-user, body.user, session or key"
}

var claimName = regexp.MustCompile(`^` + claimPath + `$`)

func readMembers(v value, t *draft) {
	m := membersDraft{Members: Members{Each: MemberLimits{Weight: defaultWeight}}, zone: t.given.zone}
	membersShape.Read(v, &m)
	for _, e := range m.overrides {
		if complaint := complainMember(e.Key); complaint != "" {
			e.Report.Add(e.At, "member %s %s", strictyaml.Show(e.Key), complaint)
		}
		if m.Override == nil {
			m.Override = map[string]MemberLimits{}
		}
		one := m.Each
		own, _ := e.Pairs()
		overrideShape.ReadPairs(own, &one)
		for _, p := range own {
			if p.Key == "until" {
				one.Until = readExpiry(p.Value, m.zone)
			}
		}
		m.Override[e.Key] = one
	}
	t.Members = &m.Members
}

// divideByKeys makes members of the draft's keys that have limits.
func (t *draft) divideByKeys(r *report) {
	if len(t.keyLimits) == 0 {
		return
	}
	m := Members{By: MemberBy{Source: ByKey}, Listed: true}
	if t.Members != nil {
		m = *t.Members.clone()
	}
	if m.By.Source != ByKey {
		r.At(strictyaml.Child(t.path(), "keys"), "have limits of their own, and members are told apart by %s: a call is of one member; give such keys to a team", m.By)
		return
	}
	if m.Override == nil {
		m.Override = map[string]MemberLimits{}
	}
	maps.Copy(m.Override, t.keyLimits)
	t.Members = &m
}

// complainMember complains about the name of a member in a file.
func complainMember(name string) string {
	if MemberOf(name) != name {
		return "is no name that a member can have; write up to " + strconv.Itoa(maxMemberName) + " letters, digits and ._@+:|=-, or " + MemberOf(name) + ", under which such a caller counts"
	}
	return ""
}

// String is as a person reads it: "by header.x-user, 60 rpm, 10000 tokens per day, 2 overridden".
func (m *Members) String() string {
	parts := []string{"by " + m.By.String()}
	for _, k := range terms.Axes {
		if n := *m.Each.Amount(k); n > 0 {
			parts = append(parts, strconv.FormatInt(n, 10)+" "+k.Key())
		}
	}
	if m.Each.Blocked != "" {
		parts = append(parts, "0 "+m.Each.Blocked)
	}
	for _, w := range m.Each.Windows {
		parts = append(parts, spellWindow(w))
	}
	for _, b := range m.Each.Budgets {
		parts = append(parts, spellBudget(b))
	}
	if n := len(m.Override); n > 0 {
		parts = append(parts, strconv.Itoa(n)+" overridden")
	}
	return strings.Join(parts, ", ")
}

// verify checks members that were made in code.
func (m *Members) verify(v *verifier, path string) {
	if by, complaint := parseMemberBy(m.By.String()); complaint != "" || by != m.By {
		v.r.At(strictyaml.Child(path, "by"), "%s %s", strictyaml.Show(m.By.String()), cmp.Or(complaint, "is not spelled as net/http does"))
	}
	check := func(path string, l *MemberLimits) {
		overrideShape.Check(v.r, path, l)
		for _, k := range terms.Axes {
			v.amounts(path, 0, maxAmount, amounts{k.Key(): *l.Amount(k)})
		}
		v.budgets(strictyaml.Child(path, "budgets"), l.Budgets)
		v.windows(strictyaml.Child(path, "limits"), l.Windows)
	}
	check(strictyaml.Child(path, "each"), &m.Each)
	for _, name := range slices.Sorted(maps.Keys(m.Override)) {
		at := strictyaml.Child(strictyaml.Child(path, "override"), name)
		if complaint := complainMember(name); complaint != "" {
			v.r.At(at, "%s", complaint)
		}
		o := m.Override[name]
		check(at, &o)
	}
}

// countsUSD is the index of the first budget in money that a member has, or -1.
func (m *Members) countsUSD() int {
	at := countsUSD(m.Each.Budgets)
	for _, o := range m.Override {
		at = max(at, countsUSD(o.Budgets))
	}
	return at
}

// clone copies members, so that nobody else can write to them.
func (m *Members) clone() *Members {
	if m == nil {
		return nil
	}
	c := *m
	c.Override = maps.Clone(m.Override)
	return &c
}
