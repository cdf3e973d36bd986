package tenants

import (
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

var poolShape = shape[Pool]{
	fields: []field[Pool]{
		{
			name: "models", about: "Names and patterns of the models that the pool serves; * stands for anything. {fast: gpt-4o-mini} serves a model by another name.",
			kind: poolModelsKind, read: func(v value, p *Pool) { v.models(p) },
		},
		{
			name: "upstream", about: "The upstream that the calls go to. May be left out when there is one.",
			kind: nameKind, read: func(v value, p *Pool) { v.poolUpstream(p) },
		},
		{
			name: "upstreams", about: "The upstreams that share the calls by weight, instead of upstream.",
			kind: poolUpstreamList, read: func(v value, p *Pool) { v.poolUpstreams(p) },
		},
		amountField("tpm", "Tokens in a rolling 60 s. 0 is off; one of tpm, rpm and concurrency must be on.", 0, maxAmount,
			func(p *Pool) *int64 { return &p.TPM }),
		amountField("rpm", "Requests in a rolling 60 s. 0 is off.", 0, maxAmount, func(p *Pool) *int64 { return &p.RPM }),
		{
			name: "concurrency", about: "Calls at once; 0 is off. Or a mapping that says more about it.",
			kind: concurrencyKind, read: func(v value, p *Pool) { v.concurrency(p) },
			start: func(p *Pool) any { return p.Concurrency },
		},
		{
			name: "accounting", about: "When the provider counts tokens: at admission with the greatest output, when they are produced, or when the call ends.",
			kind: wordKind(rules...), read: func(v value, p *Pool) { p.Accounting = v.accounting() },
			start: func(p *Pool) any { return p.Accounting },
		},
		{
			name: "token_weights", about: "What a token of each kind counts for.",
			kind: func() schema { start := DefaultPool(""); return weightShape.schema(&start.TokenWeights) },
			read: func(v value, p *Pool) { v.tokenWeights(&p.TokenWeights) },
		},
		amountField("default_max_output", "What is held for an answer without a bound, and for each thing of unknown size that a prompt refers to, in tokens.", 1, maxAmount,
			func(p *Pool) *int64 { return &p.DefaultMaxOutput }),
		decimalField("headroom", "The part of tpm and rpm that is left unused.", 6, 0, maxHeadroomPPM, 0,
			func(p *Pool) *int64 { return &p.HeadroomPPM }),
		{
			name: "burst", about: "How much unused rate the idle pool hands out at once, as a time up to 1m.",
			kind: durationKind, read: func(v value, p *Pool) {
				p.Burst = v.burst()
				p.BurstSet = true
			},
			start: func(p *Pool) any { return spellDuration(p.Burst) },
		},
		durationField("ticket_wait", "How long a call that was refused and comes back when told may wait under max_wait 0s; 0s keeps no places.", maxTicketWait,
			func(p *Pool) *time.Duration { return &p.TicketWait }),
		{
			name: "max_queue", about: "How many calls may wait.", kind: wholeKind(1, maxQueue),
			read: func(v value, p *Pool) { p.MaxQueue = int(v.amount(1, maxQueue)) }, start: func(p *Pool) any { return p.MaxQueue },
		},
		{
			name: "budgets", about: "Limits by calendar hour, day, week or month that the pool's tenants share by weight.",
			kind: budgetList, read: func(v value, p *Pool) { p.Budgets = v.budgets() },
		},
		storeLossField,
		tenantLimitsField,
		{
			name: "expect_nodes", about: "How many gateways share the store. When its data are new or lost, granting begins when so many have reported, and not after a minute. 0 is not known.",
			kind: wholeKind(0, maxNodes), read: func(v value, p *Pool) { p.ExpectNodes = int(v.amount(0, maxNodes)) },
			start: func(p *Pool) any { return p.ExpectNodes },
		},
	},
	also: schema{"required": []any{"models"}, "not": schema{"required": []any{"upstream", "upstreams"}}},
}

var weightShape = shape[TokenWeights]{
	fields: []field[TokenWeights]{
		weightField("input", func(w *TokenWeights) *int64 { return &w.Input }),
		weightField("cached_input", func(w *TokenWeights) *int64 { return &w.CachedInput }),
		weightField("output", func(w *TokenWeights) *int64 { return &w.Output }),
		weightField("reasoning", func(w *TokenWeights) *int64 { return &w.Reasoning }),
		weightField("audio", func(w *TokenWeights) *int64 { return &w.Audio }),
	},
	also: schema{"not": schema{
		"required": []any{"input", "cached_input", "output", "reasoning", "audio"}, "additionalProperties": schema{"const": 0},
	}},
}

func weightField(kind string, at func(*TokenWeights) *int64) field[TokenWeights] {
	return decimalField(kind, "", 3, 0, maxTokenWeight, 1000, at)
}

func (v value) tokenWeights(w *TokenWeights) {
	read(v, weightShape, w)
	if *w == (TokenWeights{}) {
		v.problem("all are 0, so no token would count; give at least one a weight")
		w.Input = 1000
	}
}

func (v value) burst() time.Duration { return v.duration(0, maxBurst) }

var concurrencyShape = shape[Pool]{
	fields: []field[Pool]{
		amountField("max", "Calls at once. 256 when left out of an adaptive limit.", 1, maxAmount, func(p *Pool) *int64 { return &p.Concurrency }),
		amountField("interactive_reserve", "How many of max background calls leave free: less than max. Of an adaptive limit at most half of what it is.", 0, maxAmount,
			func(p *Pool) *int64 { return &p.InteractiveReserve }),
		{
			name: "adaptive", about: "Find out how many calls the upstream can take at once, up to max, by this law.",
			kind: wordKind(laws...), read: func(v value, p *Pool) { p.Adaptive = v.law() },
		},
		amountField("min", "Where an adaptive limit begins, and what it never falls below. 4 when left out, or max if that is less.", 1, maxAmount,
			func(p *Pool) *int64 { return &p.MinConcurrency }),
	},
	also: schema{
		"anyOf":             []any{schema{"required": []any{"max"}}, schema{"required": []any{"adaptive"}}},
		"dependentRequired": schema{"min": []any{"adaptive"}},
	},
}

// laws are those of adaptive limits, as files name them.
var laws = []string{string(Gradient), string(AIMD)}

func (v value) law() Law {
	text, ok := v.scalar()
	if !ok {
		return ""
	}
	if complaint := checkLaw(Law(text)); complaint != "" {
		v.problem("%s %s", v.say(text), complaint)
		return ""
	}
	return Law(text)
}

// concurrencyKind is a number, or the mapping.
func concurrencyKind() schema {
	s := wholeKind(0, maxAmount)()
	s["anyOf"] = append(s["anyOf"].([]any), concurrencyShape.schema(nil))
	return s
}

// concurrency reads a pool's limit on calls in flight: a number, or a mapping that says more about it. When that is
// refused, the pool still has a limit and no reserve.
func (v value) concurrency(p *Pool) {
	if law, found := v.bareLaw(); found {
		v.problem("%s is not a number of calls; write {adaptive: %s}", v.say(v.node.Value), law)
		p.Concurrency = 1
		return
	}
	if v.node.Kind != yaml.MappingNode {
		p.Concurrency = v.amount(0, maxAmount)
		return
	}
	p.Concurrency = 1
	list, _ := v.pairs()
	known := readPairs(list, concurrencyShape, p)
	reserve := child(v.path, "interactive_reserve")
	switch {
	case known && !has(list, "max") && !has(list, "adaptive"):
		v.problem("has no max; write one, such as {max: 64}")
	case known && !v.refusedAny("max", "min", "adaptive", "interactive_reserve"):
		if !has(list, "max") {
			p.Concurrency = mostFound
		}
		p.beginAt()
		if complaint := checkLeast(p); complaint != "" {
			least := child(v.path, "min")
			v.r.at(least, "%s %s", v.r.shownNumber(least, p.MinConcurrency), complaint)
		}
		if complaint := checkReserve(p); complaint != "" {
			v.r.at(reserve, "%s %s", v.r.shownNumber(reserve, p.InteractiveReserve), complaint)
		}
		return
	}
	p.InteractiveReserve = 0
	p.Adaptive = ""
	p.MinConcurrency = 0
}

// bareLaw is the law that was probably meant by a word in place of the number or mapping.
func (v value) bareLaw() (law string, found bool) {
	if v.skip() || v.node.Kind != yaml.ScalarNode {
		return "", false
	}
	word, found := nearest(v.node.Value, append([]string{"adaptive"}, laws...))
	if word == "adaptive" {
		word = string(Gradient)
	}
	return word, found
}

func (v value) refusedAny(keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return v.r.refused[child(v.path, key)] })
}

// mostFound is max where an adaptive limit does not say it.
const mostFound = 256

// beginAt completes an adaptive limit that does not say where it begins.
func (p *Pool) beginAt() {
	if p.Adaptive != "" && p.MinConcurrency == 0 {
		p.MinConcurrency = min(4, p.Concurrency)
	}
}

// checkLeast complains about where an adaptive limit begins.
func checkLeast(p *Pool) string {
	switch {
	case p.Adaptive == "" && p.MinConcurrency > 0:
		return "is of an adaptive limit only; write adaptive: gradient beside it, or remove it"
	case p.Adaptive != "" && p.MinConcurrency > p.Concurrency:
		return fmt.Sprintf("is above max; write at most %d", p.Concurrency)
	}
	return ""
}

func checkLaw(law Law) string {
	if slices.Contains(laws, string(law)) {
		return ""
	}
	return "is not an algorithm of an adaptive limit; " + adviseWord(string(law), laws)
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

// rules are the rules of accounting, as files name them.
var rules = []string{string(AdmitMax), string(Production), string(SettleOnly)}

func checkAccounting(text string) string {
	if slices.Contains(rules, text) {
		return ""
	}
	return "is not an accounting rule; " + adviseWord(text, rules)
}
