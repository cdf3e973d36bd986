package sharing

import (
	"flag"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/llmgov/llmgov/federation/parts"
)

var (
	sizingWhole = flag.Bool("sizing", false, "compare rules of how much of a limit is held in advance in all worlds; takes some minutes")
	sizingTrip  = flag.Int64("sizing-trip", 5, "milliseconds to the store in these worlds, and as many back")
)

// sizingRule is one of the rules compared.
type sizingRule struct {
	name string
	lent bool
	rule func() rule
}

// sizingRules are that of this package, and its rivals. The number behind a rival's name is the price of an
// order, in tokens that lie idle for a second.
func sizingRules() []sizingRule {
	ours := func() rule { return nil }
	list := []sizingRule{
		{name: "3 s (ours)", rule: ours},
		{name: "3 s, lent", lent: true, rule: ours},
		{name: "1 s", rule: func() rule { return &linear{seconds: 1} }},
		{name: "10 s", rule: func() rule { return &linear{seconds: 10} }},
	}
	prices := []float64{1e4}
	if *sizingWhole {
		prices = []float64{1e3, 1e4, 1e5}
	}
	for _, price := range prices {
		learner := order{price: price}
		list = append(
			list,
			sizingRule{name: fmt.Sprintf("EOQ %.0f", price), rule: func() rule { l := learner; return &l }},
			sizingRule{name: fmt.Sprintf("Hedge %.0f", price), rule: func() rule { return &hedge{learner: learner} }},
			sizingRule{name: fmt.Sprintf("Hedge %.0f, told", price), rule: func() rule { return &hedge{learner: learner, told: true} }},
		)
	}
	return list
}

// sizingDemand is how calls come to the gateways.
type sizingDemand struct {
	name  string
	kind  parts.Kind
	shape func() shape
	load  float64 // as a part of the limit, if that is a minute's
}

func sizingDemands() []sizingDemand {
	even := func() shape { return steady }
	return []sizingDemand{
		{"steady", parts.Rolling, even, 0.9},
		{"bursty", parts.Rolling, bursty, 0.5},
		{"drifting", parts.Rolling, func() shape { return drifting }, 0.9},
		{"full", parts.Rolling, even, 1},
		{"budget", parts.Period, even, 1},
	}
}

// sizingFigures are those of some seeds: per 1,000 calls, but for the wait (milliseconds) and what is held
// idle (percent of the limit).
type sizingFigures struct{ trips, delayed, wait, refused, lost, idle []float64 }

func (s *sizingFigures) add(c sizingCount, one int) {
	per := 1000 / float64(c.calls)
	s.trips = append(s.trips, float64(c.beats)*per)
	s.delayed = append(s.delayed, float64(c.delayed)*per)
	s.wait = append(s.wait, float64(c.waited)/float64(max(1, c.delayed)))
	s.refused = append(s.refused, float64(c.refused)*per)
	s.lost = append(s.lost, float64(one-c.served)*per)
	s.idle = append(s.idle, 100*c.idle/c.moments)
}

func (s *sizingFigures) String() string {
	return fmt.Sprintf("%s | %s, %s | %s | %s | %s", span(s.trips), span(s.delayed), span(s.wait), span(s.refused), span(s.lost), span(s.idle))
}

// sizingWorld is one demand at so many gateways, for a tenant of rate calls in a second at all of them together.
type sizingWorld struct {
	sizingDemand
	rate     float64
	gateways int
	until    int64
}

// compare runs the rules on the same calls. More than the limit may not be used by any.
func (w *sizingWorld) compare(t *testing.T, seeds uint64, rules []sizingRule) []sizingFigures {
	t.Helper()
	limit := int64(sizingMean * w.rate * 60)
	if w.kind == parts.Period {
		limit = int64((sizingWarm + 0.7*float64(w.until-sizingWarm)) / 1000 * sizingMean * w.rate)
	}
	figures := make([]sizingFigures, len(rules))
	for seed := range seeds {
		calls := traffic(w.shape(), w.gateways, w.load*w.rate, w.until, seed)
		one := alone(w.kind, limit, calls, sizingWarm)
		for i, r := range rules {
			f := newFleet(w.kind, limit, calls, r.rule)
			f.lent = r.lent
			c := f.run(sizingWarm, w.until)
			if c.over > 0 {
				t.Errorf("%s, %s: more than the limit was used", w.name, r.name)
			}
			figures[i].add(c, one)
		}
	}
	return figures
}

// TestSizing compares rules of how much of a limit a gateway holds in advance of its calls. No rule may use
// more than the limit. None saves trips, because each gateway beats once per second in any case; and ours
// refuses nobody at a steady load of 90 % because other gateways hold the rest.
func TestSizing(t *testing.T) {
	rates := []float64{100}
	fleets := []int{3}
	until := int64(sizingWarm + 8000)
	seeds := uint64(1)
	if *sizingWhole {
		rates = []float64{100, 4}
		fleets = []int{2, 8, 64}
		until = 240_000
		seeds = 3
	}
	rules := sizingRules()
	t.Log("calls/s demand gateways rule | trips | delayed, by ms | refused | lost | idle %")
	for _, rate := range rates {
		for _, d := range sizingDemands() {
			for _, gateways := range fleets {
				w := sizingWorld{d, rate, gateways, until}
				figures := w.compare(t, seeds, rules)
				for i, r := range rules {
					t.Logf("%3.0f %-8s %2d %-18s | %v", rate, d.name, gateways, r.name, &figures[i])
				}
				if d.name == "steady" && rate == 100 {
					steadily(t, &w, rules, figures)
				}
			}
		}
	}
}

// steadily checks what a steady load of a large tenant shows.
func steadily(t *testing.T, w *sizingWorld, rules []sizingRule, figures []sizingFigures) {
	t.Helper()
	for i, r := range rules {
		trips := slices.Min(figures[i].trips) / 1000 * w.rate * w.load / float64(w.gateways)
		if trips < 0.9 {
			t.Errorf("%s: a gateway needs %.2f trips in a second", r.name, trips)
		}
	}
	if most := slices.Max(figures[0].refused); most > 2 {
		t.Errorf("%d gateways refuse %.1f of 1,000 calls while there is room", w.gateways, most)
	}
}

// span writes the least and the most of some figures.
func span(list []float64) string {
	least := fmt.Sprintf("%.1f", slices.Min(list))
	most := fmt.Sprintf("%.1f", slices.Max(list))
	if least == most {
		return least
	}
	return least + "…" + most
}

// rule says how much of a limit a gateway holds in advance of its calls, beyond its usage and the calls in
// line. It is for one gateway.
type rule interface {
	// second tells what the calls of the last second cost, and what those of the next one will.
	second(last, next float64)
	// size is how much to hold.
	size() float64
}

// linear holds so many seconds' worth at the rate of the last three seconds or so.
type linear struct{ seconds, rate float64 }

func (l *linear) second(last, _ float64) { l.rate += (last - l.rate) / aheadSeconds }

func (l *linear) size() float64 { return l.seconds * l.rate }

// eoq is the cost of holding b for a second in which calls cost demand: demand/b orders, and b/2 idle on
// average. An order costs as much as price units that lie idle for a second.
func eoq(demand, b, price float64) float64 { return demand/b + b/(2*price) }

// eoqSize is the economic order quantity: the cheapest b.
func eoqSize(demand, price float64) float64 { return max(1, math.Sqrt(2*price*demand)) }

// order is the earlier system's online learner of the economic order quantity: AdaGrad on the logarithm of
// b, with its defaults.
type order struct {
	price     float64
	log       float64 // of b
	gradients float64 // sum of squares
}

const orderMost = 1e6

func (o *order) second(last, _ float64) {
	b := o.size()
	gradient := b/(2*o.price) - last/b
	o.gradients += gradient * gradient
	step := math.Log(orderMost) / math.Sqrt(1e-8+o.gradients)
	o.log = min(max(o.log-step*gradient, 0), math.Log(orderMost))
}

func (o *order) size() float64 { return math.Exp(o.log) }

// hedge is the earlier system's predictor: it mixes the economic order quantity of the predicted demand
// with that of the learner, by what each would have cost so far.
type hedge struct {
	learner order
	told    bool // of the next second; otherwise it predicts that this is like the last
	follow  float64
	losses  [2]float64 // of follow and of the learner
}

func (h *hedge) second(last, next float64) {
	h.losses[0] += eoq(last, max(1, h.follow), h.learner.price)
	h.losses[1] += eoq(last, h.learner.size(), h.learner.price)
	h.learner.second(last, next)
	predicted := last
	if h.told {
		predicted = next
	}
	h.follow = eoqSize(predicted, h.learner.price)
}

func (h *hedge) size() float64 {
	const eta = 0.01
	trust := 1 / (1 + math.Exp(-eta*(h.losses[1]-h.losses[0])))
	return trust*h.follow + (1-trust)*h.learner.size()
}
