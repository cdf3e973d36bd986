package tenants

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

var poolShape = shape[Pool]{
	fields: []field[Pool]{
		{"models", func(v value, p *Pool) { p.Models = v.modelList() }},
		{"upstream", func(v value, p *Pool) { p.Upstream = v.name() }},
		{"tpm", func(v value, p *Pool) { p.TPM = v.amount(0, maxAmount) }},
		{"rpm", func(v value, p *Pool) { p.RPM = v.amount(0, maxAmount) }},
		{"concurrency", func(v value, p *Pool) { v.concurrency(p) }},
		{"accounting", func(v value, p *Pool) { p.Accounting = v.accounting() }},
		{"token_weights", func(v value, p *Pool) { v.tokenWeights(&p.TokenWeights) }},
		{"default_max_output", func(v value, p *Pool) { p.DefaultMaxOutput = v.amount(1, maxAmount) }},
		{"headroom", func(v value, p *Pool) { p.HeadroomPPM = v.decimal(6, 0, maxHeadroomPPM, 0) }},
		{"burst", func(v value, p *Pool) { p.Burst, p.BurstSet = v.burst(), true }},
		{"ticket_wait", func(v value, p *Pool) { p.TicketWait = v.duration(0, maxTicketWait) }},
		{"max_queue", func(v value, p *Pool) { p.MaxQueue = int(v.amount(1, maxQueue)) }},
		{"budgets", func(v value, p *Pool) { p.Budgets = v.budgets() }},
	},
	notYet: []string{"upstreams", "on_store_loss", "tenant_limits", "expect_nodes"},
}

var weightShape = shape[TokenWeights]{fields: []field[TokenWeights]{
	{"input", func(v value, w *TokenWeights) { w.Input = v.tokenWeight() }},
	{"cached_input", func(v value, w *TokenWeights) { w.CachedInput = v.tokenWeight() }},
	{"output", func(v value, w *TokenWeights) { w.Output = v.tokenWeight() }},
	{"reasoning", func(v value, w *TokenWeights) { w.Reasoning = v.tokenWeight() }},
	{"audio", func(v value, w *TokenWeights) { w.Audio = v.tokenWeight() }},
}}

func (v value) tokenWeights(w *TokenWeights) {
	read(v, weightShape, w)
	if *w == (TokenWeights{}) {
		v.problem("all are 0, so no token would count; give at least one a weight")
		w.Input = 1000
	}
}

func (v value) tokenWeight() int64 { return v.decimal(3, 0, maxTokenWeight, 1000) }

func (v value) burst() time.Duration { return v.duration(0, maxBurst) }

var concurrencyShape = shape[Pool]{
	fields: []field[Pool]{
		{"max", func(v value, p *Pool) { p.Concurrency = v.amount(1, maxAmount) }},
		{"interactive_reserve", func(v value, p *Pool) { p.InteractiveReserve = v.amount(0, maxAmount) }},
	},
	notYet: []string{"adaptive", "min"},
}

// concurrency reads a pool's limit on calls in flight: a number, or a mapping that says more about it. When that is
// refused, the pool still has a limit and no reserve.
func (v value) concurrency(p *Pool) {
	if v.node.Kind != yaml.MappingNode {
		p.Concurrency = v.amount(0, maxAmount)
		return
	}
	p.Concurrency = 1
	list, _ := v.pairs()
	known := readPairs(list, concurrencyShape, p)
	reserve := child(v.path, "interactive_reserve")
	switch {
	case known && !has(list, "max"):
		v.problem("has no max; write one, such as {max: 64}")
	case known && !v.r.refused[child(v.path, "max")] && !v.r.refused[reserve]:
		if complaint := checkReserve(p); complaint != "" {
			v.r.at(reserve, "%d %s", p.InteractiveReserve, complaint)
		}
		return
	}
	p.InteractiveReserve = 0
}

// checkReserve complains about a reserve that leaves background calls without a slot.
func checkReserve(p *Pool) string {
	switch {
	case p.InteractiveReserve == 0 || p.InteractiveReserve < p.Concurrency:
		return ""
	case p.Concurrency <= 1:
		return "leaves background calls no slot; raise max, or remove it"
	}
	return fmt.Sprintf("leaves background calls no slot of %d; write at most %d", p.Concurrency, p.Concurrency-1)
}

func (v value) accounting() Accounting {
	text, ok := v.scalar()
	if !ok {
		return AdmitMax
	}
	if complaint := checkAccounting(text); complaint != "" {
		v.problem("%s %s", v.say(text), complaint)
		return AdmitMax
	}
	return Accounting(text)
}

func checkAccounting(text string) string {
	known := []string{string(AdmitMax), string(Production), string(SettleOnly)}
	for _, k := range known {
		if text == k {
			return ""
		}
	}
	return "is no rule of accounting; " + advise(text, known)
}
