package governor

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// Whole is all of a pool, in the millionths that a Cut takes of it.
const Whole = escrow.WholePace

// Cut is what cannot be had of a pool until a time, whatever its configuration says,
// because its provider has said so or a part of that is gone.
type Cut struct {
	// Part of the rate, in millionths. What the rest has used of the minute stays as it
	// is: no call waits for what the missing part took. Where all parts are cut, nothing
	// is admitted until one that matters ends, and who can wait waits in fair order.
	Part int64
	// TPM and RPM are taken off the limits themselves, before their headroom is. Of a
	// limit at least 1 is left.
	TPM, RPM int64
	Until    time.Time
}

// Throttle puts cuts in force in a pool, instead of those before, and lets each end at
// its time. They stay over Apply. Of a pool that is not there it changes nothing.
func (g *Governor) Throttle(pool string, cuts []Cut) {
	g.within(func() { g.throttle(pool, cuts) })
}

func (g *Governor) throttle(pool string, cuts []Cut) {
	p := g.table.Load().pools[pool]
	if p == nil {
		return
	}
	sorted := slices.SortedFunc(slices.Values(cuts), func(a, b Cut) int { return a.Until.Compare(b.Until) })
	p.mu.Lock()
	if slices.Equal(sorted, p.cuts) {
		p.mu.Unlock()
		return
	}
	now := g.clock.Now()
	p.cuts = sorted
	if g.observer != nil {
		g.observer.Observe(Event{Kind: EventThrottled, At: now, Request: Request{Pool: pool}, Cuts: slices.Clone(sorted)})
	}
	g.throttleLocked(p.pool, now)
	g.pumpAndUnlock(p.pool, now)
}

// throttleLocked brings the escrow to what the cuts are now, and comes back when the
// next one ends. Call pumpAndUnlock afterwards.
func (g *Governor) throttleLocked(p *pool, now time.Time) {
	p.cuts = slices.DeleteFunc(p.cuts, func(c Cut) bool { return !c.Until.After(now) })
	p.limitLocked(now)
	part, hold := remaining(p.cuts)
	p.escrow.Throttle(now, part, hold)
	if len(p.cuts) == 0 {
		return
	}
	next := p.cuts[0].Until
	if p.thaw == nil {
		p.thaw = g.clock.AfterFunc(next.Sub(now), func() {
			p.mu.Lock()
			at := g.clock.Now()
			g.throttleLocked(p, at)
			g.pumpAndUnlock(p, at)
		})
		return
	}
	p.thaw.Reset(next.Sub(now))
}

// limitLocked puts the limits in force that the cuts leave.
func (p *pool) limitLocked(now time.Time) {
	rules, tpm, rpm := p.base, p.rules.TPM, p.rules.RPM
	for _, c := range p.cuts {
		tpm, rpm = lowered(tpm, c.TPM), lowered(rpm, c.RPM)
	}
	rules.TPM, rules.RPM = p.rules.usable(tpm), p.rules.usable(rpm)
	if rules != p.set {
		p.escrow.Configure(now, rules)
		p.set = rules
		p.era++
	}
	p.narrowLocked()
}

// lowered is a limit of which so much is cut; one that is off stays off.
func lowered(limit, by int64) int64 {
	if limit == 0 || by <= 0 {
		return limit
	}
	return max(1, limit-by)
}

// remaining is the part of the rate that cuts leave, which are sorted by their end. Where
// they leave nothing it is what there is when that changes, and when that is.
func remaining(cuts []Cut) (part int64, hold time.Time) {
	part = Whole
	for _, c := range cuts {
		part -= max(0, c.Part)
	}
	for _, c := range cuts {
		if part > 0 {
			break
		}
		part, hold = part+max(0, c.Part), c.Until
	}
	return part, hold
}
