package governor

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/terms"
)

// Whole is all of a pool's rate, in the millionths in which Cut.Part is given.
const Whole = escrow.WholePace

// Cut is what is missing of a pool for a time, whatever its configuration says, because its
// provider said so or an upstream is gone.
type Cut struct {
	// Part of the rate that is missing, in millionths. What was used of the minute stays as it is:
	// no call waits for what the missing part had used. If nothing is left of the rate, nothing is
	// admitted until a cut ends that matters; calls that can wait do so in fair order.
	Part int64
	// TPM, RPM, ITPM and OTPM are taken off the limits themselves, before headroom is; below 0 they are added. Of a limit at least 1 is
	// left.
	TPM, RPM, ITPM, OTPM int64
	// Paced says that the pool takes it off by itself, and not because its upstreams have less.
	Paced bool
	// Upstream, if set, is the one of Pool.Upstreams that all of this is about: where it takes something off limits, of that one's limits, else of all of it.
	Upstream string
	Until    time.Time
}

// Throttle replaces the cuts of a pool, each of which ends at its time. They survive Apply. For an
// unknown pool it does nothing.
func (g *Governor) Throttle(pool string, cuts []Cut) {
	now := g.lock()
	defer g.unlock()
	p := g.table.pools[pool]
	if p == nil {
		return
	}
	sorted := slices.SortedFunc(slices.Values(cuts), func(a, b Cut) int { return a.Until.Compare(b.Until) })
	if slices.Equal(sorted, p.cuts) {
		return
	}
	p.cuts = sorted
	g.events.add(Event{Kind: EventThrottled, At: now, Request: Request{Pool: pool}, Cuts: slices.Clone(sorted)})
	g.throttlePool(p.pool, now)
	g.pump(p.pool, now)
}

// throttlePool puts the cuts that are left in force in the escrow, and sets a timer for when the
// next one ends. Call pump afterwards.
func (g *Governor) throttlePool(p *pool, now time.Time) {
	p.cuts = slices.DeleteFunc(p.cuts, func(c Cut) bool { return !c.Until.After(now) })
	p.limit(now)
	part, hold := remaining(p.cuts)
	p.escrow.Throttle(now, part, hold)
	if len(p.cuts) == 0 {
		return
	}
	next := p.cuts[0].Until
	if p.thaw == nil {
		p.thaw = g.after(next.Sub(now), func(now time.Time) {
			g.throttlePool(p, now)
			g.pump(p, now)
		})
		return
	}
	p.thaw.Reset(next.Sub(now))
}

// limit puts in force the limits that the cuts leave.
func (p *pool) limit(now time.Time) {
	p.limitUpstreams(now)
	rules := p.base
	p.rules.Rate(&rules, lowered(terms.Minute(&p.rules), p.cuts, ""))
	if rules != p.set {
		p.escrow.Configure(now, rules)
		p.set = rules
	}
	p.slots.Narrow()
	if p.outage.on { // limits that are gone are asked for no more, so nothing else would end it
		p.outage.on = p.lostAll(now)
	}
}

// less is what the cut takes off limits.
func (c *Cut) less() limits.Cost {
	return limits.Cost{limits.Tokens: c.TPM, limits.Requests: c.RPM, limits.Input: c.ITPM, limits.Output: c.OTPM}
}

// lowered are limits without what the cuts of an upstream, or of all of the pool, take off; 0, no limit, stays 0.
func lowered(minute limits.Cost, cuts []Cut, upstream string) limits.Cost {
	var less limits.Cost
	for _, c := range cuts {
		if c.Upstream == upstream {
			less = less.Plus(c.less(), 1)
		}
	}
	for k, by := range less {
		if minute[k] > 0 {
			minute[k] = max(1, minute[k]-by)
		}
	}
	return minute
}

// remaining is the part of the rate that cuts leave, and zero. If they leave nothing, it is the
// part there will be when that changes, and when that is. Cuts are sorted by when they end.
func remaining(cuts []Cut) (part int64, hold time.Time) {
	part = Whole
	for _, c := range cuts {
		part -= max(0, c.part())
	}
	for _, c := range cuts {
		if part > 0 {
			break
		}
		part = part + max(0, c.part())
		hold = c.Until
	}
	return part, hold
}

// part is the part of the pool's rate that is missing: what one upstream lacks does not limit the others if they have limits of
// their own.
func (c *Cut) part() int64 {
	if c.Upstream != "" {
		return 0
	}
	return c.Part
}
