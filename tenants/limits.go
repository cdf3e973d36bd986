package tenants

import (
	"encoding/json"
	"slices"
	"strconv"
)

// Limit is one thing that decides about calls, as a person reads it.
type Limit struct {
	// Key is what it is called in files; a budget's is budgets[i], a limit's in one pool pools.NAME.tpm.
	Key string `json:"key"`
	// Value is a json.Number, or a text that a file could hold.
	Value any `json:"value"`
	// From is where it is written, file:line:col; "" for a default, and when made in code.
	From string `json:"from,omitempty"`
}

// Limits lists what decides about calls of t in p: its weight, the limits that are on, over all pools and in p alone,
// and how long it waits.
func (s *Snapshot) Limits(t *Tenant, p *Pool) []Limit {
	l := lister{from: func(key string) string { return s.Origin(t, key) }}
	if t.Group != "" {
		l.decimal("group_weight", "weight", t.GroupWeight, 3)
		l.decimal("tenant_weight", "tenant_weight", t.Weight, 3)
	} else {
		l.decimal("weight", "weight", t.Weight, 3)
	}
	l.amount("floor_tpm", t.FloorTPM)
	l.amount("rpm", t.RPM)
	l.amount("tpm", t.TPM)
	l.amount("itpm", t.ITPM)
	l.amount("otpm", t.OTPM)
	l.amount("concurrency", t.Concurrency)
	l.poolLimits(t, p)
	l.amount("max_output_tokens", t.MaxOutputTokens)
	l.text("max_wait", spellDuration(t.MaxWait))
	priority := "interactive"
	if t.Background {
		priority = "background"
	}
	l.text("priority", priority)
	if t.Credit > 0 {
		l.text("credit", spellDuration(t.Credit))
	}
	if t.Shadow {
		l.text("shadow", "true")
	}
	if t.Routes != DefaultRoutes {
		l.text("routes", t.Routes.String())
	}
	l.budgets(t.Budgets, func(i int) string { return s.budgetOrigin(t, i) })
	return l.list
}

// PoolLimits lists what p has to give, and how it counts.
func (s *Snapshot) PoolLimits(p *Pool) []Limit {
	l := lister{from: func(key string) string { return s.PoolOrigin(p, key) }}
	l.amount("tpm", p.TPM)
	l.amount("rpm", p.RPM)
	l.amount("concurrency", p.Concurrency)
	if p.InteractiveReserve > 0 {
		l.add("interactive_reserve", number(p.InteractiveReserve),
			s.PoolOrigin(p, child("concurrency", "interactive_reserve")))
	}
	l.decimal("headroom", "headroom", p.HeadroomPPM, 6)
	l.text("accounting", string(p.Accounting))
	l.budgets(p.Budgets, func(i int) string { return s.PoolOrigin(p, item("budgets", i)) })
	return l.list
}

// UsableTPM is the pool's tokens a minute less its headroom, rounded down; 0 where tpm is off.
func (p *Pool) UsableTPM() int64 {
	if p.TPM == 0 {
		return 0
	}
	return p.usableTPM()
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
		l.add(spell(key), number(n), l.from(key))
	}
}

// poolLimits adds what t is limited to in p alone.
func (l *lister) poolLimits(t *Tenant, p *Pool) {
	at := slices.IndexFunc(t.Pools, func(in PoolLimits) bool { return in.Pool == p.Name })
	if at < 0 {
		return
	}
	in, path := t.Pools[at], child("pools", p.Name)
	l.amount(child(path, "rpm"), in.RPM)
	l.amount(child(path, "tpm"), in.TPM)
	l.amount(child(path, "itpm"), in.ITPM)
	l.amount(child(path, "otpm"), in.OTPM)
	l.amount(child(path, "concurrency"), in.Concurrency)
}

func (l *lister) decimal(name, key string, n int64, places int) {
	l.add(name, json.Number(spellDecimal(n, places)), l.from(key))
}

func (l *lister) text(key, val string) { l.add(key, val, l.from(key)) }

func (l *lister) budgets(list []Budget, from func(i int) string) {
	for i, b := range list {
		l.add("budgets["+strconv.Itoa(i)+"]", b.String(), from(i))
	}
}

func number(n int64) json.Number { return json.Number(strconv.FormatInt(n, 10)) }

// String is "20000000 tokens per day".
func (b Budget) String() string {
	amount := strconv.FormatInt(b.Limit, 10)
	if b.Unit == MicroUSD {
		amount = spellDecimal(b.Limit, 6)
	}
	return amount + " " + string(b.Unit) + " per " + string(b.Per)
}
