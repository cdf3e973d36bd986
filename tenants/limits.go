package tenants

import (
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// Limit is one thing that decides about calls, as a person reads it.
type Limit struct {
	// Key is its name in files; a budget's is budgets[i], a limit's over another time than a minute limits[i], and a limit's in one
	// pool pools.NAME.tpm.
	Key string `json:"key"`
	// Value is a json.Number, or a text that a file could hold.
	Value any `json:"value"`
	// From is where it is written, file:line:col; "" for a default, and when made in code.
	From string `json:"from,omitempty"`
	// Of is the parent whose limit it is, by name; "" for the tenant's or team's own.
	Of string `json:"of,omitempty"`
}

// Limits lists the values that decide about calls of t in p: its weight, the limits that are on, over all pools and in p alone,
// and how long it waits. Where a parent's limit is stricter than t's own, the strictest of these is there too.
func (s *Snapshot) Limits(t *Tenant, p *Pool) []Limit {
	l := lister{from: func(key string) string { return s.Origin(t, key) }}
	if t.Group != "" {
		l.decimal("group_weight", "weight", thousandths(t.GroupWeight), 3)
		l.decimal("tenant_weight", "tenant_weight", thousandths(t.Weight), 3)
	} else {
		l.decimal("weight", "weight", thousandths(t.Weight), 3)
	}
	l.amount("floor_tpm", t.FloorTPM)
	for _, k := range terms.Axes {
		s.axis(&l, t, k.Key(), func(t *Tenant) int64 { return *t.Amount(k) })
	}
	for _, k := range terms.Axes {
		s.axis(&l, t, strictyaml.Child(strictyaml.Child("pools", p.Name), k.Key()), func(t *Tenant) int64 {
			in := t.LimitsIn(p)
			return *in.Amount(k)
		})
	}
	s.windows(&l, t, "limits", func(t *Tenant) []Window { return t.Windows })
	inPool := strictyaml.Child(strictyaml.Child("pools", p.Name), "limits")
	s.windows(&l, t, inPool, func(t *Tenant) []Window { return t.LimitsIn(p).Windows })
	if t.Blocked != nil {
		l.add("blocked", true, t.Blocked.String())
	}
	l.amount("max_output_tokens", t.MaxOutputTokens)
	l.text("max_wait", strictyaml.SpellDuration(t.MaxWait))
	l.text("priority", priorityOf(t))
	if t.PriorityBy != nil {
		l.text("priority_by", t.PriorityBy.String())
	}
	if t.Credit > 0 {
		l.text("credit", strictyaml.SpellDuration(t.Credit))
	}
	if t.Shadow {
		l.text("shadow", "true")
	}
	if t.Spent == spentStatuses[1] {
		l.text("spent", "402")
	}
	if t.Routes != DefaultRoutes {
		l.text("routes", t.Routes.String())
	}
	if t.ServiceTiers != nil {
		others := ""
		if t.LowerTiers {
			others = ", else lower"
		}
		l.text("service_tiers", strings.Join(t.ServiceTiers, " ")+others)
	}
	if t.Members != nil {
		l.text("members", t.Members.String())
	}
	if t.Upstreams != nil {
		l.text("upstreams", strings.Join(t.Upstreams, ", "))
	}
	l.budgets(t.Budgets, func(i int) string { return s.itemOrigin(t, "budgets", i) })
	s.budgetsAbove(&l, t)
	return l.list
}

// axis adds t's own limit, and its parents' strictest where that is stricter.
func (s *Snapshot) axis(l *lister, t *Tenant, key string, of func(*Tenant) int64) {
	own := of(t)
	l.amount(key, own)
	var who *Tenant
	for a := range s.parents(t) {
		if n := of(a); n > 0 && (own == 0 || n < own) {
			own = n
			who = a
		}
	}
	if who != nil {
		l.list = append(l.list, Limit{Key: strictyaml.Spell(key), Value: number(own), From: s.Origin(who, key), Of: who.Name})
	}
}

// budgetsAbove adds those of the parents' budgets of which t has none of its own that is as strict.
func (s *Snapshot) budgetsAbove(l *lister, t *Tenant) {
	type found struct {
		Budget
		who *Tenant
		at  int
	}
	var list []found
	for _, b := range t.Budgets {
		list = append(list, found{Budget: b})
	}
	for a := range s.parents(t) {
		for i, b := range a.Budgets {
			at := slices.IndexFunc(list, func(f found) bool { return f.Same(b) })
			switch {
			case at < 0:
				list = append(list, found{b, a, i})
			case b.Limit < list[at].Limit:
				list[at] = found{b, a, i}
			}
		}
	}
	for _, f := range list {
		if f.who != nil {
			key := "budgets[" + strconv.Itoa(f.at) + "]"
			l.list = append(l.list, Limit{Key: key, Value: spellBudget(f.Budget), From: s.itemOrigin(f.who, "budgets", f.at), Of: f.who.Name})
		}
	}
}

// parents are t's, the nearest first.
func (s *Snapshot) parents(t *Tenant) iter.Seq[*Tenant] {
	return func(yield func(*Tenant) bool) {
		for at := t.Parent; at >= 0; at = s.tenants[at].Parent {
			if !yield(&s.tenants[at]) {
				return
			}
		}
	}
}

// PoolLimits lists the capacity of p, and how it counts.
func (s *Snapshot) PoolLimits(p *Pool) []Limit {
	l := lister{from: func(key string) string { return s.PoolOrigin(p, key) }}
	for _, k := range terms.Axes {
		l.amount(k.Key(), *p.Amount(k))
		if k < terms.Concurrency && p.Ranges[k].Max > 0 {
			l.amount(strictyaml.Child(k.Key(), "max"), p.Ranges[k].Max)
			if law := p.Ranges[k].Adaptive; law != "" {
				l.add(k.Key()+".adaptive", law, l.from(strictyaml.Child(k.Key(), "adaptive")))
			}
		}
	}
	if p.Ramp > 0 {
		l.text("ramp", spellRamp(p.Ramp))
	}
	if p.Adapts() {
		l.add("adaptive", p.Adaptive.String(), s.PoolOrigin(p, strictyaml.Child("concurrency", "adaptive")))
		l.add("min", number(p.MinConcurrency), s.PoolOrigin(p, strictyaml.Child("concurrency", "min")))
	}
	if p.InteractiveReserve > 0 {
		l.add("interactive_reserve", number(p.InteractiveReserve),
			s.PoolOrigin(p, strictyaml.Child("concurrency", "interactive_reserve")))
	}
	if p.SoftCapPPM > 0 {
		l.decimal("soft_cap", strictyaml.Child("concurrency", "soft_cap"), p.SoftCapPPM, 6)
	}
	if p.HoldBackPPM > 0 {
		l.decimal("hold_back", strictyaml.Child("concurrency", "hold_back"), p.HoldBackPPM, 6)
	}
	if p.PerTenant {
		l.add("per_tenant", true, s.PoolOrigin(p, strictyaml.Child("concurrency", "per_tenant")))
	}
	l.decimal("headroom", "headroom", p.HeadroomPPM, 6)
	l.text("accounting", p.Accounting.String())
	if p.Affinity != AffinitySession {
		l.text("affinity", string(p.Affinity))
	}
	if p.TenantLimits != terms.LimitsLeased {
		l.text("tenant_limits", p.TenantLimits.String())
	}
	l.budgets(p.Budgets, func(i int) string { return s.PoolOrigin(p, strictyaml.Item("budgets", i)) })
	return l.list
}

// UsableTPM is the pool's tokens a minute less its headroom; 0 where tpm is off.
func (p *Pool) UsableTPM() int64 { return max(0, p.Usable(p.TPM)) }

// WholeLimits notes limits so small that a headroom that is written down, and is in whole units, leaves all of them.
func (s *Snapshot) WholeLimits(p *Pool) (notes []string) {
	if s.PoolOrigin(p, "headroom") == "" {
		return nil
	}
	for _, k := range timed {
		if limit := *p.Amount(k); limit > 0 && p.HeadroomPPM > 0 && p.Usable(limit) == limit {
			notes = append(notes, "pool "+p.Name+": headroom "+strictyaml.SpellDecimal(p.HeadroomPPM, 6)+" leaves all of "+k.Key()+" "+
				strconv.FormatInt(limit, 10)+", of which it is less than one; lower "+k.Key()+" to leave some of it unused")
		}
	}
	return notes
}

// lister gathers limits.
type lister struct {
	from func(key string) string
	list []Limit
}

func (l *lister) add(key string, val any, from string) {
	l.list = append(l.list, Limit{Key: key, Value: val, From: from})
}

// amount adds a limit that 0 turns off.
func (l *lister) amount(key string, n int64) {
	if n > 0 {
		l.add(strictyaml.Spell(key), number(n), l.from(key))
	}
}

func (l *lister) decimal(name, key string, n int64, places int) {
	l.add(name, json.Number(strictyaml.SpellDecimal(n, places)), l.from(key))
}

func (l *lister) text(key, val string) { l.add(key, val, l.from(key)) }

func (l *lister) budgets(list []Budget, from func(i int) string) {
	for i, b := range list {
		l.add("budgets["+strconv.Itoa(i)+"]", spellBudget(b), from(i))
	}
}

func number(n int64) json.Number { return json.Number(strconv.FormatInt(n, 10)) }

// thenBackground ends the text of a budget beyond which calls go in the background.
const thenBackground = ", then background"

// spellBudget is "20000000 tokens per day".
func spellBudget(b Budget) string {
	amount := strconv.FormatInt(b.Limit, 10)
	if b.Unit == MicroUSD {
		amount = strictyaml.SpellDecimal(b.Limit, 6)
	}
	if b.Background {
		return amount + " " + b.Name() + thenBackground
	}
	return amount + " " + b.Name()
}

// Origin is where t has its value of a key from, file:line:col: its own line, else that of its tier or, where a team
// has such a thing from its parent, of the parent; of a limit that was overridden, who did that. It is "" for a default, and in a snapshot that was made in code.
func (s *Snapshot) Origin(t *Tenant, key string) string {
	if from := s.overridden(t.Name, key); from != "" {
		return from
	}
	if t.Parent >= 0 {
		parent := &s.tenants[t.Parent]
		switch {
		case key == "shadow" && parent.Shadow,
			key == "priority" && parent.Background,
			key == "max_output_tokens" && parent.MaxOutputTokens == t.MaxOutputTokens:
			return s.Origin(parent, key)
		}
	}
	return s.origins.first(t.paths(key)...)
}

// PoolOrigin is where p has its value of a key from, file:line:col; "" as in [Snapshot.Origin].
func (s *Snapshot) PoolOrigin(p *Pool, key string) string {
	return s.origins.first(strictyaml.Child(strictyaml.Child("pools", p.Name), key))
}

// itemOrigin is where the i-th entry of a list of t is written. All entries are of one list: the tenant's, else the tier's.
func (s *Snapshot) itemOrigin(t *Tenant, key string, i int) string {
	if from := s.overridden(t.Name, key); from != "" {
		return from
	}
	for _, path := range t.paths(key) {
		if _, ok := s.origins.Written(path); ok {
			return s.origins.first(strictyaml.Item(path, i))
		}
	}
	return ""
}
