package tenants

import (
	"time"

	"go.yaml.in/yaml/v3"
)

var poolShape = shape[Pool]{
	fields: []field[Pool]{
		{"models", func(v value, p *Pool) { p.Models = v.modelList() }},
		{"upstream", func(v value, p *Pool) { p.Upstream = v.name() }},
		{"tpm", func(v value, p *Pool) { p.TPM = v.amount(0, maxAmount) }},
		{"rpm", func(v value, p *Pool) { p.RPM = v.amount(0, maxAmount) }},
		{"concurrency", func(v value, p *Pool) { p.Concurrency = v.concurrency() }},
		{"accounting", func(v value, p *Pool) { p.Accounting = v.accounting() }},
		{"token_weights", func(v value, p *Pool) { v.tokenWeights(&p.TokenWeights) }},
		{"default_max_output", func(v value, p *Pool) { p.DefaultMaxOutput = v.amount(1, maxAmount) }},
		{"headroom", func(v value, p *Pool) { p.HeadroomPPM = v.decimal(6, 0, maxHeadroomPPM, 0) }},
		{"burst", func(v value, p *Pool) { p.Burst, p.BurstSet = v.burst(), true }},
		{"max_queue", func(v value, p *Pool) { p.MaxQueue = int(v.amount(1, maxQueue)) }},
	},
	notYet: []string{"upstreams", "ticket_wait", "budgets", "on_store_loss", "tenant_limits", "expect_nodes"},
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

// concurrency reads a pool's limit on calls in flight; the adaptive form is a mapping.
func (v value) concurrency() int64 {
	if v.node.Kind == yaml.MappingNode {
		v.problem("a mapping (adaptive limit) is not supported yet; write a plain number")
		return 1
	}
	return v.amount(0, maxAmount)
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
