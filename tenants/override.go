package tenants

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// Override replaces limits of a tenant, team or member at run time, until it ends.
type Override struct {
	// Tenant is the name of the tenant, team or member: acme, acme/search, or acme/~ann.
	Tenant string `json:"tenant"`
	// RPM, TPM, ITPM, OTPM and Concurrency are the limits over all pools that it replaces. At 0 no call passes. What is left out stays as the files have it.
	RPM         *int64 `json:"rpm,omitempty"`
	TPM         *int64 `json:"tpm,omitempty"`
	ITPM        *int64 `json:"itpm,omitempty"`
	OTPM        *int64 `json:"otpm,omitempty"`
	Concurrency *int64 `json:"concurrency,omitempty"`
	// Weight replaces the weight.
	Weight *float64 `json:"weight,omitempty"`
	// Budgets replace all budgets, each as in "500000 tokens per day". One that counts the same as a budget that it replaces warns as that does, and is followed by the background if that is.
	Budgets []string `json:"budgets,omitempty"`
	// Pools replace limits in single pools, each as in "tpm 60000 in gpt-4o"; others stay.
	Pools []string `json:"pools,omitempty"`
	// Until is its end; null is none.
	Until *time.Time `json:"until"`
	// Why is the reason, By who gave it, and Made when.
	Why  string    `json:"why"`
	By   string    `json:"by"`
	Made time.Time `json:"made"`
}

// amounts are the limits that it replaces, by their axes.
func (o *Override) amounts() map[terms.Axis]int64 {
	all := map[terms.Axis]*int64{terms.Requests: o.RPM, terms.Tokens: o.TPM, terms.Input: o.ITPM, terms.Output: o.OTPM, terms.Concurrency: o.Concurrency}
	set := map[terms.Axis]int64{}
	for k, amount := range all {
		if amount != nil {
			set[k] = *amount
		}
	}
	return set
}

// Limits are all that it replaces, as texts such as "tpm 500000".
func (o *Override) Limits() string {
	var parts []string
	set := o.amounts()
	for _, k := range terms.Axes {
		if amount, there := set[k]; there {
			parts = append(parts, k.Key()+" "+strconv.FormatInt(amount, 10))
		}
	}
	if o.Weight != nil {
		parts = append(parts, fmt.Sprint("weight ", *o.Weight))
	}
	parts = slices.Concat(parts, o.Budgets, o.Pools)
	return cmp.Or(strings.Join(parts, ", "), "-")
}

// Live reports whether it has not ended.
func (o *Override) Live(now time.Time) bool { return o.Until == nil || now.Before(*o.Until) }

// String says whose it is and until when, as the place where a limit is written.
func (o *Override) String() string {
	text := "override by " + o.By
	if o.Until != nil {
		text += " until " + o.Until.UTC().Format(time.RFC3339)
	}
	return text + " (" + o.Why + ")"
}

// laid is what a snapshot is with overrides, and what it was without.
type laid struct {
	list    []Override // sorted by their tenants, as far as they fit
	unfit   []string   // what does not, as sentences
	tenants []Tenant
	full    [sha256.Size]byte
}

// WithOverrides is the snapshot with other overrides, and else the same. There is one of a tenant at most; those of tenants that the
// policy does not have do nothing, and neither does a limit of one that no longer fits: see Unfit. Of those of one member, under both of its
// names, the last holds. The snapshot's Hash stays that of the files.
func (s *Snapshot) WithOverrides(list []Override) *Snapshot {
	list = slices.Clone(list)
	for i := range list {
		list[i].Tenant = s.Canonical(list[i].Tenant)
	}
	slices.Reverse(list)
	slices.SortStableFunc(list, func(a, b Override) int { return strings.Compare(a.Tenant, b.Tenant) })
	list = slices.CompactFunc(list, func(a, b Override) bool { return a.Tenant == b.Tenant })
	if len(list) == 0 && len(s.laid.list) == 0 {
		return s
	}
	out := *s
	if len(s.laid.list) > 0 {
		out.tenants = s.laid.tenants
		out.runtime.full = s.laid.full
	}
	out.laid = laid{list: list, tenants: out.tenants, full: out.runtime.full}
	if len(list) > 0 {
		out.tenants = slices.Clone(out.tenants)
		out.runtime.full = sha256.Sum256(append(out.runtime.full[:], encode(list)...))
	}
	for i := range list {
		owner, _, member := terms.CutMember(list[i].Tenant)
		out.laid.unfit = append(out.laid.unfit, s.fit(&list[i])...)
		switch at, known := s.byName[owner]; {
		case known && member:
			out.tenants[at].overrideMember(&list[i])
		case known:
			out.override(at, &list[i])
		}
	}
	return out.withKeys(out.runtime)
}

// override lays an override over the tenant at a place, whose teams stand behind it.
func (s *Snapshot) override(at int, o *Override) {
	t := &s.tenants[at]
	if o.Weight != nil {
		t.Weight = *o.Weight
	}
	if o.Budgets != nil {
		t.Budgets = o.budgets(t.Budgets)
	}
	t.Pools = slices.Clone(t.Pools)
	for _, text := range o.Pools {
		k, amount, pool, _ := parseInPool(text)
		*t.inPool(pool).Amount(k) = amount
	}
	sortPoolLimits(t.Pools)
	for k, amount := range o.amounts() {
		if amount > 0 {
			*t.Amount(k) = amount
			continue
		}
		s.block(at, o)
	}
}

// block blocks the tenant at a place, and its teams.
func (s *Snapshot) block(at int, o *Override) {
	name := s.tenants[at].Name
	for i := at; i < len(s.tenants) && strings.HasPrefix(s.tenants[i].Name, name); i++ { // "acme-2" may be before "acme/a"
		if i == at || strings.HasPrefix(s.tenants[i].Name, name+teamSep) {
			s.tenants[i].Blocked = o
		}
	}
}

// overrideMember lays an override over one of the tenant's members.
func (t *Tenant) overrideMember(o *Override) {
	if t.Members == nil {
		return
	}
	t.Members = t.Members.clone()
	name := t.Members.Plain(o.Tenant)
	under := &t.Members.Each
	if m, listed := t.Members.Override[name]; listed {
		under = &m
	}
	if t.Members.Override == nil {
		t.Members.Override = map[string]MemberLimits{}
	}
	t.Members.Override[name] = *o.over(under, &t.Members.Each)
}

// over is what a member has that has under without the override, each once that has ended.
func (o *Override) over(under, each *MemberLimits) *MemberLimits {
	m := *under
	if o.Weight != nil {
		m.Weight = *o.Weight
	}
	if o.Budgets != nil {
		m.Budgets = o.budgets(m.Budgets)
	}
	for k, amount := range o.amounts() {
		m.limit(k, amount)
	}
	switch {
	case !under.Until.IsZero() && (o.Until == nil || under.Until.Before(*o.Until)):
		m.Then = o.over(each, each)
	case o.Until != nil:
		m.Until = *o.Until
		m.Then = under
	}
	return &m
}

// fit leaves out of an override what the policy of the files has no place for by now, and says what. What else it has stays: a tenant that it
// blocks is blocked.
func (s *Snapshot) fit(o *Override) (unfit []string) {
	owner, _, member := terms.CutMember(o.Tenant)
	t, known := s.ofFiles(owner)
	if !known || member && t.Members == nil {
		return nil
	}
	unless := func(list []string, complain func(before []string, text string) string) (fit []string) {
		for _, text := range list {
			if complaint := complain(fit, text); complaint != "" {
				unfit = append(unfit, "override of "+o.Tenant+": left out: "+complaint)
			} else {
				fit = append(fit, text)
			}
		}
		return fit
	}
	o.Pools = unless(o.Pools, func(before []string, text string) string { return s.complainPool(t, before, text) })
	o.Budgets = unless(o.Budgets, func(before []string, text string) string { return t.complainBudget(member, before, text) })
	return unfit
}

// Canonical is the name by which overrides have whom a name means: that under which a member's calls count, for a member by key or session, which
// may be called without the word as well.
func (s *Snapshot) Canonical(name string) string {
	owner, member, is := terms.CutMember(name)
	if t, known := s.TenantByName(owner); is && known && t.Members != nil {
		return terms.MemberName(owner, t.Members.counted(t.Members.Plain(member)))
	}
	return name
}

// ofFiles is a tenant without overrides.
func (s *Snapshot) ofFiles(name string) (*Tenant, bool) {
	at, known := s.byName[name]
	switch {
	case !known:
		return nil, false
	case s.laid.tenants != nil:
		return &s.laid.tenants[at], true
	}
	return &s.tenants[at], true
}

// budgets are those that it has in place of others.
func (o *Override) budgets(before []Budget) (list []Budget) {
	for _, text := range o.Budgets {
		b, _ := parseBudget(text)
		if at := slices.IndexFunc(before, b.Same); at >= 0 {
			b.Background = b.Background || before[at].Background
			b.WarnAt = before[at].WarnAt
		}
		list = append(list, b)
	}
	return list
}

// parseBudget reads a budget as in "500000 tokens per day".
func parseBudget(text string) (b Budget, complaint string) {
	var amount, unit, per string
	text, background := strings.CutSuffix(text, thenBackground)
	parts := strings.Fields(text)
	if len(parts) == 4 && parts[2] == "per" {
		amount, unit, per = parts[0], parts[1], parts[3]
	}
	u := slices.Index(units.names(), unit)
	p := slices.Index(periods.names(), per)
	if u < 0 || p < 0 {
		return b, `is no budget; write one such as "500000 tokens per day" or "20 usd per month"`
	}
	b = Budget{Unit: units.list[u], Per: periods.list[p], Background: background}
	places, most := 0, int64(maxAmount)
	if b.Unit == MicroUSD {
		places, most = 6, maxMicroUSD
	}
	b.Limit, complaint = strictyaml.ParseDecimal(amount, places, 1, most)
	return b, complaint
}

// parseInPool reads a limit as in "tpm 60000 in gpt-4o".
func parseInPool(text string) (k terms.Axis, amount int64, pool string, ok bool) {
	limit, pool, _ := strings.Cut(text, " in ")
	key, digits, _ := strings.Cut(limit, " ")
	amount, complaint := strictyaml.ParseDecimal(digits, 0, 1, maxAmount)
	at := slices.IndexFunc(terms.Axes, func(k terms.Axis) bool { return k.Key() == key })
	if at < 0 || complaint != "" {
		return 0, 0, "", false
	}
	return terms.Axes[at], amount, pool, true
}

// CheckOverride finds what is wrong with an override of the policy, as a sentence; "" if it can be laid over it.
func (s *Snapshot) CheckOverride(o *Override) string {
	owner, _, member := terms.CutMember(o.Tenant)
	t, known := s.ofFiles(owner)
	amounts := o.amounts()
	switch {
	case !known:
		return "There is no tenant " + strictyaml.Show(owner) + "."
	case member && t.Members == nil:
		return "Tenant " + owner + " has no members in its policy."
	case member && complainMember(t.Members.Plain(o.Tenant)) != "":
		return "Member " + strictyaml.Show(t.Members.Plain(o.Tenant)) + " " + complainMember(t.Members.Plain(o.Tenant)) + "."
	case member && len(o.Pools) > 0:
		return "A member has no limits in single pools. Leave pools out."
	case o.Budgets != nil && len(o.Budgets) == 0:
		return "budgets is empty. Leave it out, or name one at least."
	case len(amounts)+len(o.Budgets)+len(o.Pools) == 0 && o.Weight == nil:
		return "Nothing is overridden. Send one of rpm, tpm, itpm, otpm, concurrency, weight, budgets and pools."
	case o.Weight != nil && !(*o.Weight >= minWeight && *o.Weight <= maxWeight):
		return fmt.Sprintf("weight must be from %v to %v, not %v.", minWeight, maxWeight, *o.Weight)
	}
	for k, amount := range amounts {
		if amount < 0 || amount > maxAmount {
			return fmt.Sprintf("%s must be from 0, at which no call passes, to %d, not %d.", k.Key(), maxAmount, amount)
		}
	}
	for i, text := range o.Pools {
		if complaint := s.complainPool(t, o.Pools[:i], text); complaint != "" {
			return complaint
		}
	}
	for i, text := range o.Budgets {
		if complaint := t.complainBudget(member, o.Budgets[:i], text); complaint != "" {
			return complaint
		}
	}
	return ""
}

// complainPool complains about an override's limit in a pool, after others.
func (s *Snapshot) complainPool(t *Tenant, before []string, text string) string {
	k, _, pool, ok := parseInPool(text)
	at := slices.IndexFunc(s.cfg.Pools, func(p Pool) bool { return p.Name == pool })
	switch {
	case !ok:
		return fmt.Sprintf(`%s is no limit in a pool; write one such as "tpm 60000 in gpt-4o", of rpm, tpm, itpm, otpm or concurrency from 1 to %d.`, strictyaml.Show(text), int64(maxAmount))
	case at < 0 || !t.open(&s.cfg.Pools[at]):
		return "There is no pool " + strictyaml.Show(pool) + " that tenant " + t.Name + " may use."
	}
	for _, other := range before {
		if axis, _, of, _ := parseInPool(other); axis == k && of == pool {
			return strictyaml.Show(text) + " is there twice. Keep one."
		}
	}
	return ""
}

// complainBudget complains about an override's budget, after others.
func (t *Tenant) complainBudget(member bool, before []string, text string) string {
	b, complaint := parseBudget(text)
	same := func(other string) bool { o, _ := parseBudget(other); return b.Same(o) }
	switch {
	case complaint != "":
		return strictyaml.Show(text) + " " + complaint + "."
	case slices.ContainsFunc(before, same):
		return strictyaml.Show(text) + " counts the same as another of the budgets. Keep one."
	case b.Unit == MicroUSD && countsUSD(t.Budgets) < 0 && !(member && t.Members.countsUSD() >= 0):
		return "A budget in usd needs prices of all models, which is checked for those whom the files give one. Give " + t.Name + " a budget in usd there first."
	}
	return ""
}

// Overrides are those in force, sorted by their tenants.
func (s *Snapshot) Overrides() []Override { return s.laid.list }

// SamePolicy reports whether two snapshots have the same policy, with its overrides: whether they differ in keys, secrets and addresses at most.
func (s *Snapshot) SamePolicy(o *Snapshot) bool {
	return s.hash == o.hash && bytes.Equal(encode(s.laid.list), encode(o.laid.list))
}

// overridden is where an override has a limit of a tenant, team or member from, by the name of Canonical; "" if none has.
func (s *Snapshot) overridden(name, key string) string {
	i, found := slices.BinarySearchFunc(s.laid.list, name, func(o Override, name string) int { return strings.Compare(o.Tenant, name) })
	if !found {
		return ""
	}
	o := &s.laid.list[i]
	has := key == "weight" && o.Weight != nil || o.Budgets != nil && key == "budgets"
	for k, amount := range o.amounts() {
		has = has || k.Key() == key && amount > 0
	}
	for _, text := range o.Pools {
		k, _, pool, _ := parseInPool(text)
		has = has || key == strictyaml.Child(strictyaml.Child("pools", pool), k.Key())
	}
	if has {
		return o.String()
	}
	return ""
}
