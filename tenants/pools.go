package tenants

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

var poolShape = shape[Pool]{
	Fields: slices.Concat(rangeFields("The pool's %s. 0 is off; a pool needs one limit to share."), []field[Pool]{
		{
			Name: "models", About: "Names and patterns of the models that the pool serves; `*` stands for anything. {fast: gpt-4o-mini} serves a model by another name.",
			Kind: poolModelsKind, Read: func(v value, p *Pool) { readModels(v, p) },
		},
		{
			Name: "upstream", About: "The upstream that the calls go to. May be left out when there is one.",
			Kind: strictyaml.NameKind, Read: func(v value, p *Pool) { readPoolUpstream(v, p) },
		},
		{
			Name: "upstreams", About: "The upstreams that share the calls by weight, instead of upstream.",
			Kind: poolUpstreamList, Read: func(v value, p *Pool) { readPoolUpstreams(v, p) },
		},
		affinityField,
		shortWindowsField[Pool]("write per: 1m alone, or budgets for hours, days, weeks and months"),
		{
			Name: "headers", About: "Headers for the upstreams, by name. In their values {tenant}, {tier}, {priority} and {request_id} stand for those of the call.",
			Kind: headersKind, Read: func(v value, p *Pool) { readHeaders(v, p) },
		},
		{
			Name: "concurrency", About: "Calls at once; 0 is off. Or a mapping that says more about it.",
			Kind: concurrencyKind, Read: func(v value, p *Pool) { readConcurrency(v, p) },
			Start: func(p *Pool) any { return p.Concurrency },
		},
		{
			Name: "accounting", About: "When the provider counts tokens: at admission with the greatest output, when they are produced, or when the call ends.",
			Kind: rules.kind(), Read: func(v value, p *Pool) { p.Accounting = rules.read(v, AdmitMax) },
			Start: func(p *Pool) any { return p.Accounting.String() },
		},
		{
			Name: "token_weights", About: "What a token of each kind counts for; not all 0.",
			Kind: func() schema { start := DefaultPool(""); return weightShape.Schema(&start.Weights) },
			Read: func(v value, p *Pool) { readTokenWeights(v, &p.Weights) },
		},
		strictyaml.AmountField("default_max_output", "What is held for an answer without a bound, and for each thing of unknown size that a prompt refers to, in tokens, until calls have shown how many they take.", 1, maxAmount,
			func(p *Pool) *int64 { return &p.DefaultMaxOutput }),
		strictyaml.DecimalField("headroom", "The part of tpm, rpm, itpm and otpm that is left unused, in whole tokens and requests: rpm 10 stays 10.", strictyaml.Decimals{Places: 6, Most: maxHeadroomPPM},
			func(p *Pool) *int64 { return &p.HeadroomPPM }),
		{
			Name: "burst", About: "How much unused rate the idle pool hands out at once, over all its gateways, as a time: 10s of tpm 300000 are 50000 tokens.",
			Kind: strictyaml.DurationKindTo(0, maxBurst), Read: func(v value, p *Pool) {
				v.Duration(&p.Burst, 0, maxBurst)
				p.BurstSet = true
			},
			Start: func(p *Pool) any { return strictyaml.SpellDuration(p.Burst) },
		},
		rampField,
		strictyaml.DurationField("ticket_wait", "How long a call that was refused and comes back when told may wait under max_wait 0s; 0s keeps no places.", maxTicketWait,
			func(p *Pool) *time.Duration { return &p.TicketWait }),
		{
			Name: "timeouts", About: "How long the pool's upstreams may take to begin an answer, instead of what timeouts says for all.",
			Kind: func() schema { return poolTimeouts.Schema(&Pool{}) }, Read: func(v value, p *Pool) { poolTimeouts.Read(v, p) },
		},
		{
			Name: "max_queue", About: "How many calls may wait.", Kind: strictyaml.WholeKind(1, maxQueue),
			Read: func(v value, p *Pool) { p.MaxQueue = int(v.Amount(1, maxQueue)) }, Start: func(p *Pool) any { return p.MaxQueue },
		},
		{
			Name: "budgets", About: "Limits by calendar hour, day, week or month that the pool's tenants share by weight.",
			Kind: budgetList, Read: func(v value, p *Pool) {
				p.Budgets = readBudgets(v)
				poolBudgets(v.Report, v.Path, p.Budgets)
			},
		},
		storeLossField,
		tenantLimitsField,
		{
			Name: "expect_nodes", About: "How many gateways share the store. When its data are new or lost, granting begins when so many have reported, and not after a minute. 0 is not known.",
			Kind: strictyaml.WholeKind(0, maxNodes), Read: func(v value, p *Pool) { p.ExpectNodes = int(v.Amount(0, maxNodes)) },
			Start: func(p *Pool) any { return p.ExpectNodes },
		},
	}),
	Also: schema{"required": []any{"models"}, "not": schema{"required": []any{"upstream", "upstreams"}}},
}

// poolTimeouts are those of timeouts that a pool may have of its own.
var poolTimeouts = shape[Pool]{Fields: []field[Pool]{
	strictyaml.DurationField("upstream_header", "To begin a stream; 0s is as for all.", maxTimeout, func(p *Pool) *time.Duration { return &p.UpstreamHeader }),
	strictyaml.DurationField("upstream_answer", "To begin an answer that is no stream; 0s is as for all.", maxTimeout, func(p *Pool) *time.Duration { return &p.UpstreamAnswer }),
}}

var weightShape = shape[TokenWeights]{
	Fields: []field[TokenWeights]{
		weightField("input", "Input.", 0, maxTokenWeight, func(w *TokenWeights) *float64 { return &w.Input }),
		weightField("cached_input", "Input that the provider had cached. It counts as other input until the call ends.", 0, maxTokenWeight, func(w *TokenWeights) *float64 { return &w.CachedInput }),
		weightField("output", "Output.", 0, maxTokenWeight, func(w *TokenWeights) *float64 { return &w.Output }),
		weightField("reasoning", "Output that is reasoning.", 0, maxTokenWeight, func(w *TokenWeights) *float64 { return &w.Reasoning }),
		weightField("held_output", "The most that a call may produce, until it ends, if the provider counts that otherwise than output: Bedrock counts it once, and output five times. 0 is as output.",
			0, maxTokenWeight, func(w *TokenWeights) *float64 { return &w.HeldOutput }),
		weightField("audio", "Input and output that is audio.", 0, maxTokenWeight, func(w *TokenWeights) *float64 { return &w.Audio }),
	},
	Also: schema{"not": schema{
		"required": []any{"input", "cached_input", "output", "reasoning", "audio"}, "additionalProperties": schema{"const": 0},
	}},
}

// weightField is a number of up to three decimals.
func weightField[T any](key, about string, least, most float64, at func(*T) *float64) field[T] {
	return field[T]{
		Name: key, About: about, Kind: strictyaml.FractionKind(3, thousandths(least), thousandths(most)),
		Read: func(v value, into *T) {
			*at(into) = float64(v.Decimal(3, thousandths(least), thousandths(most), thousandths(defaultWeight))) / 1000
		},
		Start: func(from *T) any { return json.Number(strictyaml.SpellDecimal(thousandths(*at(from)), 3)) },
		Check: func(from *T) string {
			if w := *at(from); w == 0 || w >= least && w <= most {
				return ""
			}
			return fmt.Sprintf("%v is out of range; use %v to %.0f", *at(from), least, most)
		},
	}
}

// thousandths is how a weight is read and written.
func thousandths(weight float64) int64 { return int64(math.Round(weight * 1000)) }

func readTokenWeights(v value, w *TokenWeights) {
	weightShape.Read(v, w)
	if *w == (TokenWeights{HeldOutput: w.HeldOutput}) {
		v.Problem("all are 0, so no token would count; give at least one a weight")
		w.Input = 1
	}
}

var concurrencyShape = shape[Pool]{
	Fields: []field[Pool]{
		strictyaml.AmountField("max", "Calls at once. 256 when left out of an adaptive limit.", 1, maxAmount, func(p *Pool) *int64 { return &p.Concurrency }),
		strictyaml.AmountField("interactive_reserve", "How many of max background calls leave free: less than max. Of an adaptive limit at most half of what it is.", 0, maxAmount,
			func(p *Pool) *int64 { return &p.InteractiveReserve }),
		strictyaml.DecimalField("soft_cap", "The part of max that one tenant may have once half of max is in use.",
			strictyaml.Decimals{Places: 6, Most: maxSoftCapPPM}, func(p *Pool) *int64 { return &p.SoftCapPPM }),
		strictyaml.DecimalField("hold_back", "The part of max that calls of priority 0 leave free; those of higher ones leave less.",
			strictyaml.Decimals{Places: 6, Most: maxHoldBackPPM}, func(p *Pool) *int64 { return &p.HoldBackPPM }),
		{
			Name: "adaptive", About: "Find out how many calls the upstream can take at once, up to max, by this law.",
			Kind: laws.kind(), Read: func(v value, p *Pool) { p.Adaptive = laws.read(v, 0) },
		},
		strictyaml.AmountField("min", "Where an adaptive limit begins, and what it never falls below. 4 when left out, or max if that is less.", 1, maxAmount,
			func(p *Pool) *int64 { return &p.MinConcurrency }),
		{
			Name: "per_tenant", About: "Whether a tenant whose calls the upstream fails runs fewer of them at once for a time.",
			Kind: func() schema { return strictyaml.BoolKind() }, Read: func(v value, p *Pool) { p.PerTenant = v.Bool() },
		},
	},
	Also: schema{
		"anyOf":             []any{schema{"required": []any{"max"}}, schema{"required": []any{"adaptive"}}},
		"dependentRequired": schema{"min": []any{"adaptive"}},
	},
}

// laws are those of adaptive limits.
var laws = words[Law]{"an algorithm of an adaptive limit", []Law{Gradient, AIMD}}

// concurrencyKind is a number, or the mapping.
func concurrencyKind() schema {
	s := strictyaml.WholeKind(0, maxAmount)()
	s["anyOf"] = append(s["anyOf"].([]any), concurrencyShape.Schema(nil))
	return s
}

// readConcurrency reads a pool's limit on calls in flight: a number, or a mapping that says more about it. When that is
// refused, the pool still has a limit and no reserve.
func readConcurrency(v value, p *Pool) {
	if law, found := bareLaw(v); found {
		v.Problem("%s is not a number of calls; write {adaptive: %s}", v.Say(v.Raw()), law)
		p.Concurrency = 1
		return
	}
	if !v.IsMapping() {
		p.Concurrency = v.Amount(0, maxAmount)
		return
	}
	p.Concurrency = 1
	list, _ := v.Pairs()
	known := concurrencyShape.ReadPairs(list, p)
	switch {
	case known && !strictyaml.Has(list, "max") && !strictyaml.Has(list, "adaptive"):
		v.Problem("has no max; write one, such as {max: 64}")
	case known && !refusedAny(v, "max", "min", "adaptive", "interactive_reserve", "soft_cap", "hold_back", "per_tenant"):
		if !strictyaml.Has(list, "max") {
			p.Concurrency = mostFound
		}
		p.beginAt()
		for _, c := range p.slotComplaints() {
			path := strictyaml.Child(v.Path, c.key)
			if c.number == 0 {
				v.Report.At(path, "%s", c.text)
				continue
			}
			v.Report.At(path, "%s %s", v.Report.ShownNumber(path, c.number), c.text)
		}
		return
	}
	p.InteractiveReserve = 0
	p.SoftCapPPM = 0
	p.HoldBackPPM = 0
	p.PerTenant = false
	p.Adaptive = 0
	p.MinConcurrency = 0
}

// slotComplaint is what is wrong with the value of a key of concurrency: with its number, or as a whole.
type slotComplaint struct {
	key    string
	number int64
	text   string
}

// slotComplaints are what is wrong with the rules of a pool's slots.
func (p *Pool) slotComplaints() []slotComplaint {
	list := []slotComplaint{
		{"min", p.MinConcurrency, checkLeast(p)},
		{"interactive_reserve", p.InteractiveReserve, checkReserve(p)},
		{"soft_cap", 0, p.checkPart(p.SoftCapPPM, "soft_cap", "a tenant at its cap", "a tenant may always have one call")},
		{"hold_back", 0, p.checkPart(p.HoldBackPPM, "hold_back", "calls that are held back", "a call that left it free could never begin")},
	}
	if p.PerTenant && p.Concurrency <= 1 {
		list = append(list, slotComplaint{"per_tenant", 0, "has nothing to lower, because the pool's max is 1; raise max or remove per_tenant"})
	}
	return slices.DeleteFunc(list, func(c slotComplaint) bool { return c.text == "" })
}

// checkPart complains about a rule of a part of the slots if their limit has to be found out, or is too small for it.
func (p *Pool) checkPart(part int64, key, kept, small string) string {
	switch {
	case part == 0:
		return ""
	case p.Adapts():
		return "is of a fixed limit only, because " + kept + " would keep an adaptive one from rising; remove adaptive or " + key
	case p.Concurrency <= 1:
		return "does nothing with a max of 1, because " + small + "; raise max, or remove it"
	}
	return ""
}

// bareLaw is the law that was probably meant by a word in place of the number or mapping.
func bareLaw(v value) (law string, found bool) {
	if v.Skip() || !v.IsScalar() {
		return "", false
	}
	word, found := strictyaml.Nearest(v.Raw(), append([]string{"adaptive"}, laws.names()...))
	if word == "adaptive" {
		word = Gradient.String()
	}
	return word, found
}

func refusedAny(v value, keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return v.Report.Refused[strictyaml.Child(v.Path, key)] })
}

// checkLeast complains about where an adaptive limit begins.
func checkLeast(p *Pool) string {
	switch {
	case !p.Adapts() && p.MinConcurrency > 0:
		return "is of an adaptive limit only; write adaptive: gradient beside it, or remove it"
	case p.Adapts() && p.MinConcurrency > p.Concurrency:
		return fmt.Sprintf("is above max; write at most %d", p.Concurrency)
	}
	return ""
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

// rules are the rules of accounting.
var rules = words[Accounting]{"an accounting rule", []Accounting{AdmitMax, Production, SettleOnly}}
