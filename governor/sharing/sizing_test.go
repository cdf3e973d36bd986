package sharing

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/governor"
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

// In this world gateways that share one limit of one tenant make their claims by the rule of this
// package, or by a rival, and a real account answers them. Its time is in milliseconds.
const (
	sizingStep = 5
	sizingTick = 25   // the runner looks whether a beat is due
	sizingWait = 250  // for a grant
	sizingRuns = 2000 // a call
	sizingWarm = 62_000
	sizingMean = 1000.0 // cost of a call
)

// arrival is a call that comes.
type arrival struct{ at, cost int64 }

// shape is the rate at one gateway, as a multiple of its even part.
type shape func(gateway, gateways int, at int64, rng *rand.Rand) float64

// steady calls come evenly.
func steady(int, int, int64, *rand.Rand) float64 { return 1 }

// drifting calls move on from gateway to gateway, once around in a minute.
func drifting(gateway, gateways int, at int64, _ *rand.Rand) float64 {
	angle := 2 * math.Pi * (float64(at)/60_000 - float64(gateway)/float64(gateways))
	return math.Pow(1+math.Cos(angle), 2) / 1.5
}

// bursty calls come for 5 s on average, and then not for 15 s.
func bursty() shape {
	on := map[int]bool{}
	return func(gateway, _ int, _ int64, rng *rand.Rand) float64 {
		mean := 15_000.0
		if on[gateway] {
			mean = 5000
		}
		if rng.Float64() < sizingStep/mean {
			on[gateway] = !on[gateway]
		}
		if on[gateway] {
			return 4
		}
		return 0
	}
}

// traffic is what comes to each gateway, if so many calls come in a second to all of them together.
func traffic(s shape, gateways int, rate float64, until int64, seed uint64) [][]arrival {
	list := make([][]arrival, gateways)
	rng := rand.New(rand.NewPCG(seed, 5))
	even := rate / float64(gateways) * sizingStep / 1000
	for at := int64(0); at < until; at += sizingStep {
		for i := range list {
			left := math.Exp(-even * s(i, gateways, at, rng))
			for p := rng.Float64(); p > left; p *= rng.Float64() {
				list[i] = append(list[i], arrival{at, 100 + int64(rng.ExpFloat64()*(sizingMean-100))})
			}
		}
	}
	return list
}

// fleet is the gateways of a world.
type fleet struct {
	kind     parts.Kind
	limit    int64
	lent     bool // what is asked for in advance is asked for as Claim.Spare
	now      int64
	account  parts.Account
	gateways []*gateway
	seen     sizingCount
}

// sizingCount counts calls, beats, and what was held idle.
type sizingCount struct {
	calls   int
	beats   int
	delayed int   // admitted later, though there was room
	waited  int64 // by these
	refused int   // though there was room
	served  int
	over    int     // moments in which more than the limit was used
	idle    float64 // part of the limit, summed over moments
	moments float64
}

// gateway is one process.
type gateway struct {
	limits  Limits
	holder  *parts.Holder
	rule    rule // nil is that of this package
	coming  []arrival
	line    []waiting
	left    []arrival // what still counts, oldest first
	used    int64
	others  int64
	taken   limits.Traffic
	last    int64
	began   int64 // the last call
	lacks   bool  // since the last claims
	busy    bool
	lacking bool
	rests   bool
	reply   *parts.Reply
	replyAt int64
	second  float64 // cost of calls since the second began
}

type waiting struct {
	arrival
	roomy bool // there was room when it came
}

func newFleet(kind parts.Kind, limit int64, calls [][]arrival, rule func() rule) *fleet {
	f := &fleet{kind: kind, limit: limit}
	for i, coming := range calls {
		f.gateways = append(f.gateways, &gateway{
			holder: parts.NewHolder("a", "g"+strconv.Itoa(i), uint64(i)), rule: rule(), coming: coming, rests: true, began: -sizingRuns,
		})
	}
	return f
}

// run lets time pass, and counts from then on.
func (f *fleet) run(from, until int64) sizingCount {
	for ; f.now < until; f.now += sizingStep {
		if f.now == from {
			f.seen = sizingCount{}
		}
		for _, g := range f.gateways {
			f.live(g)
		}
		f.look()
	}
	return f.seen
}

func sizingClock(ms int64) time.Time {
	return time.Unix(1e9, 0).Add(time.Duration(ms) * time.Millisecond)
}

// used is what counts in all gateways.
func (f *fleet) used() (n int64) {
	for _, g := range f.gateways {
		n += g.used
	}
	return n
}

// look sees what is held.
func (f *fleet) look() {
	f.seen.moments++
	if f.used() > f.limit {
		f.seen.over++
	}
	for _, g := range f.gateways {
		f.seen.idle += float64(max(0, f.part(g)-g.used)) / float64(f.limit)
	}
}

func (f *fleet) name() string {
	if f.kind == parts.Period {
		return "month"
	}
	return limits.Tokens.String()
}

func (f *fleet) part(g *gateway) int64 {
	if g.rests {
		return 0
	}
	return g.holder.Part(sizingClock(f.now), f.name())
}

// live is what a gateway does in a moment.

func (f *fleet) live(g *gateway) {
	for f.kind == parts.Rolling && len(g.left) > 0 && g.left[0].at+60_000 <= f.now {
		g.used -= g.left[0].cost
		g.left = g.left[1:]
	}
	if g.reply != nil && g.replyAt <= f.now {
		f.hear(g)
	}
	f.serve(g)
	news := f.meet(g)
	if f.now%1000 == 0 {
		f.learn(g)
	}
	if !g.rests && g.reply == nil && (news || f.now%sizingTick == 0) && g.holder.Due(sizingClock(f.now), g.busy, g.lacking) {
		f.beat(g)
	}
}

// learn tells the rule of the second that is over.
func (f *fleet) learn(g *gateway) {
	if g.rule != nil {
		next := 0.0
		for _, c := range g.coming {
			if c.at >= f.now+1000 {
				break
			}
			next += float64(c.cost)
		}
		g.rule.second(g.second, next)
	}
	g.second = 0
}

// meet takes in the calls that come now. It reports whether one lacks a grant, and that is news.
func (f *fleet) meet(g *gateway) (news bool) {
	for len(g.coming) > 0 && g.coming[0].at <= f.now {
		c := g.coming[0]
		g.coming = g.coming[1:]
		g.second += float64(c.cost)
		f.seen.calls++
		g.last = c.cost
		if len(g.line) == 0 && g.used+c.cost <= f.part(g) {
			f.admit(g, c)
			continue
		}
		news = news || !g.lacks
		g.lacks = true
		roomy := f.used()+c.cost <= f.limit
		if g.used+g.others+g.waits()+c.cost <= f.limit {
			g.line = append(g.line, waiting{c, roomy})
		} else {
			f.refuse(roomy)
		}
	}
	if news {
		g.rests = false
		g.busy = true
		g.lacking = true
	}
	return news
}

// serve lets calls go that wait, in their order, or refuses them.
func (f *fleet) serve(g *gateway) {
	for len(g.line) > 0 {
		w := g.line[0]
		switch {
		case g.used+w.cost <= f.part(g):
			f.admit(g, w.arrival)
			if w.roomy {
				f.seen.delayed++
				f.seen.waited += f.now - w.at
			}
		case w.at+sizingWait <= f.now:
			f.refuse(w.roomy)
		default:
			return
		}
		g.line = g.line[1:]
	}
}

func (f *fleet) refuse(roomy bool) {
	if roomy {
		f.seen.refused++
	}
}

func (f *fleet) admit(g *gateway, c arrival) {
	f.seen.served++
	g.used += c.cost
	g.left = append(g.left, arrival{f.now, c.cost})
	g.taken.Taken[limits.Tokens] += c.cost
	g.taken.Taken[limits.Concurrency]++
	g.began = f.now
}

// demand is what a governor would state.
func (f *fleet) demand(g *gateway) governor.LimitsDemand {
	d := governor.LimitsDemand{Spoken: true, Granted: true, InLine: len(g.line), Traffic: g.taken, Lacks: g.lacks}
	if f.now < g.began+sizingRuns {
		d.Running = 1
	}
	axis := limits.Demand{Name: f.name(), Length: parts.Window, Limit: f.limit, Used: g.used, Waiting: g.waits(), Last: g.last, Queued: len(g.line) > 0}
	if axis.Queued {
		axis.First = g.line[0].cost
	}
	d.Axes[limits.Concurrency].Waiting = int64(len(g.line))
	if f.kind == parts.Period {
		d.Budgets = []governor.BudgetDemand{{
			Name: f.name(), Ends: sizingClock(1e9), Scale: 1, Limit: f.limit, Granted: f.part(g), Used: g.used,
			Others: g.others, Last: max(g.last, axis.First), Lacks: g.used+g.last > f.part(g),
			Budget: governor.Budget{Limit: f.limit},
		}}
		return d
	}
	d.Axes[limits.Tokens] = axis
	return d
}

// claims are those of this package. A rival changes how much they ask for in advance.
func (f *fleet) claims(g *gateway) []parts.Claim {
	claims, busy := g.limits.claim(sizingClock(f.now), f.demand(g))
	g.busy = busy
	g.lacks = false
	c := &claims[0]
	present := max(c.Need, g.used+g.waits())
	if g.rule != nil {
		c.Want = present
		if busy {
			c.Want += max(g.last, int64(g.rule.size()))
		}
		c.Want = min(f.limit, c.Want)
	}
	if f.lent {
		c.Spare = max(0, c.Want-present)
	}
	return claims
}

// waits is the cost of the calls in line.
func (g *gateway) waits() (cost int64) {
	for _, w := range g.line {
		cost += w.cost
	}
	return cost
}

// beat sends a beat. It reaches the account a trip later, and so does the answer the gateway.
func (f *fleet) beat(g *gateway) {
	f.seen.beats++
	claims := f.claims(g)
	b := g.holder.Beat(sizingClock(f.now), g.busy, claims)
	g.lacking = false
	r := f.account.Beat(sizingClock(f.now+*sizingTrip).UnixMilli(), b)
	g.reply = &r
	g.replyAt = f.now + 2**sizingTrip
}

// hear takes in an answer.
func (f *fleet) hear(g *gateway) {
	r := g.reply
	g.reply = nil
	now := sizingClock(f.now)
	if !g.holder.Answered(now, r) {
		return
	}
	g.others = r.Parts[0].Others
	g.lacking = g.lacking || g.holder.Lacks()
	if !g.holder.Quiet() {
		return
	}
	if len(g.line) == 0 && !g.lacks && g.taken == g.limits.told && (f.kind == parts.Period || parts.Crumb(g.used, f.limit)) {
		g.rests = true
	} else {
		g.busy = true
	}
}

// alone is how many calls one gateway that gets all of them would serve.
func alone(kind parts.Kind, limit int64, calls [][]arrival, from int64) (served int) {
	var all, left []arrival
	for _, list := range calls {
		all = append(all, list...)
	}
	slices.SortStableFunc(all, func(x, y arrival) int { return int(x.at - y.at) })
	used := int64(0)
	for _, c := range all {
		for kind == parts.Rolling && len(left) > 0 && left[0].at+60_000 <= c.at {
			used -= left[0].cost
			left = left[1:]
		}
		if used+c.cost > limit {
			continue
		}
		used += c.cost
		left = append(left, c)
		if c.at >= from {
			served++
		}
	}
	return served
}
