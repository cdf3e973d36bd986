package sharing

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/governor"
)

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
