package governor

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor/refusal"
)

// A pool is cut off when nobody says how much of its shared limits it may hand out.

// cutOff reports whether the pool has not been told of late how much it may hand out. To be
// told "nothing for now" is an answer, too.
func (p *pool) cutOff(now time.Time) bool {
	for pair := range pairs {
		if p.pairCutOff(now, pair) {
			return true
		}
	}
	return false
}

// pairCutOff reports the same of the limits of a pair.
func (p *pool) pairCutOff(now time.Time, pair int) bool {
	return p.set.Shared && p.rated(pair) && now.Sub(p.rates.allowed[pair]) >= GrantLasts
}

// GrantLasts is how long an answer counts: as long as a grant.
const GrantLasts = 2500 * time.Millisecond

// dry reports whether the pool is cut off and allows itself nothing.
func (p *pool) dry(now time.Time) bool {
	if p.slots.Lost() && p.slots.Own() == 0 {
		return true
	}
	minute := p.set.Minute()
	for pair, axes := range pairs {
		if !p.pairCutOff(now, pair) {
			continue
		}
		for _, k := range axes {
			if a, _ := p.escrow.Allowed(now, k); minute[k] > 0 && (a.Rate == 0 || !now.Before(a.Until)) {
				return true
			}
		}
	}
	return false
}

// offerDry offers a call to a dry pool. Nobody knows when its turn will come, so no place is
// kept for it, and a returning call waits no longer than it would otherwise.
func (p *pool) offerDry(now time.Time, call escrow.Call) (escrow.Handle, escrow.Answer) {
	call.Claim = escrow.Claim{Retry: escrow.RetryFirst}
	ans := p.escrow.Foretell(now, call)
	if ans.Verdict == escrow.Admitted || ans.Verdict == escrow.Queued {
		return p.escrow.Offer(now, call)
	}
	return escrow.Handle{}, ans
}

// The allowance that a pool gives itself when it is cut off is in force for aloneFor. It may be renewed aloneAgain
// before that ends: longer than it takes to notice that a beat was not answered.
const aloneFor, aloneAgain = 2200 * time.Millisecond, 2 * time.Second

// Alone tells a pool that no answers come about these axes, and how many nodes there were when that was last known;
// 0 if it never was. Once the pool is cut off it allows itself as much as its configuration says for that
// case. Call it again and again.
func (s *SharedPool) Alone(now time.Time, nodes int) {
	s.g.lock()
	defer s.g.unlock()
	p := s.find()
	if p == nil || p.knowsAlone(now, s.pair, nodes) {
		return
	}
	s.g.queueTold(Told{Verb: ratesAlone, Pool: s.name, Pair: s.pair, Now: s.g.line.since(now), Nodes: nodes})
	s.g.leaveAlone(p, s.pair, now, nodes)
}

// knowsAlone reports whether it changes nothing to tell a pool that no answers come.
func (p *pool) knowsAlone(now time.Time, pair, nodes int) bool {
	return p.rates.alone && p.rates.nodes == nodes && p.outage.on == p.lostAll(now) && !(p.helpsAgain(now, pair) && p.canHelp(now, pair, nodes))
}

// canHelp reports whether the pool may give itself an allowance, or has one to give up.
func (p *pool) canHelp(now time.Time, pair, nodes int) bool {
	own := func(k escrow.Axis) bool { return p.ownRate(now, k, nodes) > 0 }
	return !p.rates.aloneUntil[pair].IsZero() || slices.ContainsFunc(pairs[pair][:], own)
}

// ownRate is the rate that the pool allows itself now of the limit on an axis, as one of so many nodes.
func (p *pool) ownRate(now time.Time, k escrow.Axis, nodes int) int64 {
	return p.afterCuts(now, p.aloneRate(p.set.Minute()[k], max(nodes, p.rules.ExpectNodes)))
}

// helpsAgain reports whether it is time for an allowance that the pool gives itself.
func (p *pool) helpsAgain(now time.Time, pair int) bool {
	return p.pairCutOff(now, pair) && !now.Before(p.rates.aloneUntil[pair].Add(-aloneAgain))
}

func (g *Governor) leaveAlone(p *pool, pair int, now time.Time, nodes int) {
	p.rates.alone = true
	if p.rates.nodes != nodes {
		p.rates.nodes = nodes
		p.slots.Configure(p.slotRules())
		p.slots.Narrow()
	}
	g.noteOutage(p, now)
	if !p.helpsAgain(now, pair) {
		return
	}
	until := &p.rates.aloneUntil[pair]
	was := *until
	*until = time.Time{}
	for _, k := range pairs[pair] {
		rate := p.ownRate(now, k, nodes)
		if rate == 0 {
			continue
		}
		a, left := p.escrow.Allowed(now, k)
		if spent := p.escrow.Spent(k); was.IsZero() { // nothing is left of the grant, except debt
			left = min(0, a.Left(a.Until.Add(-1), spent))
		} else if !now.Before(was) {
			left = a.Left(was.Add(-1), spent)
		}
		*until = now.Add(aloneFor)
		// A second's worth may be used at once, as calls are indivisible. Together with the rate
		// (see aloneRate) that is no more than this node's part in any minute.
		p.escrow.Allow(now, k, escrow.Allowance{
			Since: now, Until: *until, Level: min(left, rate/60), Rate: rate, Spent: p.escrow.Spent(k),
		})
	}
	g.pump(p, now)
}

// helpsItself reports whether allowances are in force that the pool gave itself.
func (p *pool) helpsItself(now time.Time) bool {
	return slices.ContainsFunc(p.rates.aloneUntil[:], now.Before)
}

// aloneRate is the rate that this process allows itself of a limit while it is cut off as one of so
// many nodes.
func (p *pool) aloneRate(limit int64, nodes int) int64 {
	rate := p.rules.OwnPart(limit, nodes)
	if p.rules.OnLoss == LossLocal {
		rate = rate * 60 / 62 // two seconds' worth may be saved up
	}
	return rate
}

// lossLasts is how long a loss lasts, as far as that is known. Learning takes as long as the store says,
// unless it ends as soon as the expected nodes have reported.
func (p *pool) lossLasts(now time.Time) time.Duration {
	if p.learns(now) && p.cutOff(now) && !p.helpsItself(now) && p.rules.ExpectNodes == 0 {
		return max(refusal.LossRetry, p.rates.learning.Sub(now))
	}
	return refusal.LossRetry
}

// Degraded says which failure mode is in force in a pool that is cut off from whoever shares its
// limits out: closed, open or local, as configured, or learning while nothing is granted because
// earlier usage is unknown. It is empty if none is.
func (g *Governor) Degraded(pool string) string {
	now := g.look()
	defer g.unlock()
	p := g.table.pools[pool]
	if p == nil || !g.shared {
		return ""
	}
	return p.degraded(now)
}

// Touch takes the lock and gives it back. If it does not return, the governor is stuck.
func (g *Governor) Touch() {
	g.look()
	g.unlock()
}

// Modes are the values of Degraded.
var Modes = []string{LossClosed.String(), LossOpen.String(), LossLocal.String(), modeLearning}

const modeLearning = "learning"

func (p *pool) degraded(now time.Time) string {
	rule := p.rules.OnLoss.String()
	switch {
	case p.unanswered(now):
		return rule
	case !p.cutOff(now) && !p.slots.Lost():
		return ""
	case p.helpsItself(now), !p.cutOff(now) && p.slots.IsAlone() && p.slots.Own() > 0:
		return rule
	case p.cutOff(now) && p.learns(now):
		return modeLearning
	}
	return LossClosed.String()
}
