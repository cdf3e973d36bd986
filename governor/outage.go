package governor

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor/refusal"
)

// outage tells calls of a pool, in whatever line they wait, that it can admit nothing more, because nobody
// says how much of its shared limits it may hand out. They are refused at once, so that they go elsewhere:
// a gateway that let them wait would collect the callers of all others.
type outage struct {
	on    bool
	timer Timer // when the rates last granted expire; nil before the first grant
}

// noteOutage begins or ends an outage. Call it whenever something is heard of grants, or is not.
func (g *Governor) noteOutage(p *pool, now time.Time) {
	was := p.outage.on
	p.outage.on = p.lostAll(now)
	if p.outage.on && !was {
		g.line.wake(func(c *call) bool { return c.pool.pool == p })
	}
}

// lostAll reports whether the pool may hand out nothing until somebody answers again. A store that
// answers, but grants nothing yet, is not lost.
func (p *pool) lostAll(now time.Time) bool {
	if p.slots.IsAlone() && p.slots.Lost() && p.slots.Own() == 0 {
		return true
	}
	if !p.cutOff(now) || p.learns(now) || p.fresh() {
		return false
	}
	nodes := max(p.rates.nodes, p.rules.ExpectNodes)
	for _, limit := range p.set.Minute() {
		if limit > 0 && p.rules.OwnPart(limit, nodes) == 0 {
			return true
		}
	}
	return false
}

// expectGrant looks for an outage when the rates that have just been granted expire.
func (g *Governor) expectGrant(p *pool, now time.Time) {
	g.noteOutage(p, now)
	expires := time.Duration(GrantLasts)
	for i, allowed := range p.rates.allowed {
		if p.rated(i) && !allowed.IsZero() {
			expires = min(expires, allowed.Add(GrantLasts).Sub(now))
		}
	}
	if p.outage.timer != nil {
		p.outage.timer.Reset(expires)
		return
	}
	p.outage.timer = g.after(expires, func(now time.Time) { g.noteOutage(p, now) })
}

// CutOff reports whether no pool can admit anything, because nobody says how much of its limits it may hand
// out. So calls should be sent to other processes, if these are not cut off.
func (g *Governor) CutOff() bool {
	g.look()
	defer g.unlock()
	pools := g.table.inOrder.pools
	return len(pools) > 0 && !slices.ContainsFunc(pools, func(p *poolView) bool { return !p.outage.on })
}

// refusalInOutage returns the refusal of a call that may wait for so long, if the pool admits nothing
// in that time; else nil.
func (p *pool) refusalInOutage(now time.Time, tenant string, call *escrow.Call) *Refusal {
	tooLong := p.lossLasts(now) > max(call.MaxWait, refusal.LossRetry)
	if !p.outage.on && !(tooLong && p.dry(now)) {
		return nil
	}
	rej := refuseLost(tenant)
	p.lost(now, rej)
	return rej
}
