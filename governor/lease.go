package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/placement"
)

// Lease is all that one call holds. It ends exactly once, by the first call of Settle, Break,
// Charge or Release; later ones do nothing. The zero Lease holds nothing. A Lease is a small value
// that may be copied, and is safe for concurrent use.
type Lease struct {
	g          *Governor
	pool       *pool
	handle     escrow.Handle
	commitment *commitment // instead of a handle; nil for calls
	cost       cost        // see Costing
	before     Booked      // the Request's Booked
	// Waited is how long the call waited to be admitted.
	Waited time.Duration
	// Would is why a shadow's call would have been refused; nil if it would not, or for other
	// calls.
	Would *Refusal
}

// cost is what a call costs in money, if whoever ends its lease knows.
type cost struct {
	microUSD int64
	known    bool
}

// Costing is the lease with the cost in money, in micro-dollars, for one that ends at another price than the Request's.
func (l Lease) Costing(microUSD int64) Lease {
	l.cost = cost{microUSD: bounded(microUSD), known: true}
	return l
}

// spent is what a usage costs in budgets.
func (l *Lease) spent(u Usage, requests int64, held *Price) Spend {
	s := l.pool.spend(u, requests, held)
	if l.cost.known {
		s[UnitMicroUSD] = l.cost.microUSD
	}
	return s
}

// Settle ends the lease of a call that came to its end, with its actual usage. It reports
// whether this call of Settle ended it.
func (l Lease) Settle(u Usage) bool { return l.end(u.Bounded(), 1, EndSettled) }

// Break ends the lease of a call that was broken off, with its usage by then. Nothing is
// learned from it, but that it would have been longer. It reports whether this call of Break ended
// it.
func (l Lease) Break(u Usage) bool { return l.end(u.Bounded(), 1, EndBroken) }

// Charge ends a lease that was forced (Request.Forced) with what another call, which goes on, has
// taken so far. It counts as no request. It reports whether this call of Charge ended the lease.
func (l Lease) Charge(u Usage) bool { return l.end(u.Bounded(), 0, EndCharged) }

// Postpone ends the lease of a call whose work goes on by itself and is charged when it is done, by a
// request that says so (Request.Booked). Its holds of rolling limits stay booked for
// their minute, because the provider counts it there; its share bears the usual cost of such calls,
// and budgets get everything back. It reports whether this call of Postpone ended the lease.
func (l Lease) Postpone() bool { return l.end(Usage{}, 1, EndPostponed) }

// Release ends the lease of a call that never reached the upstream, and gives everything back. It
// reports whether this call of Release ended it.
func (l Lease) Release() bool { return l.end(Usage{}, 0, EndReleased) }

func (l *Lease) end(u Usage, requests int64, how Ending) (ended bool) {
	switch {
	case l.pool == nil:
		return false
	case l.g.line == nil:
		return l.endNow(u, requests, how)
	}
	same := *l // because l stays on the stack
	same.g.line.instant(func() { ended = same.endNow(u, requests, how) })
	return ended
}

func (l *Lease) endNow(u Usage, requests int64, how Ending) bool {
	if l.commitment != nil {
		return l.commitment.end(l, u, how)
	}
	p := l.pool
	now := l.g.clock.Now()
	p.mu.Lock()
	w := &p.weights
	p.endsLocked(now, l.handle, u, how)
	actual := l.tookLocked(u, requests)
	cost := placement.PoolCost(p.believedLocked(l.handle, actual))
	booked := p.escrow.CostOf(int(l.handle.Slot))
	fair := w.fair(u)
	if how == EndPostponed && p.escrow.Running(l.handle) {
		postponed := &p.leases[l.handle.Slot]
		cost = booked
		actual = postponed.holds.cost
		fair = w.fair(Usage{Input: postponed.input, Output: p.outputs.Expect(&postponed.course.output)})
	}
	st, ok := p.endLocked(now, l.handle, taking{cost, fair, u, how == EndSettled})
	if !ok {
		p.mu.Unlock()
		return false
	}
	p.endedLocked(now, &st, u, how)
	l.g.stirLocked(p, now)
	b := st.holds
	spent := l.spent(u, requests, b.price)
	believed := b.belief.spend(spent)
	b.ended = l.g.tally.note(now, &st, p.name, believed, spent.less(believed))
	p.bookEndedLocked(now, st.seat, b.shares, believed)
	p.settleSharesLocked(now, b, believed)
	l.g.pumpAndUnlock(p, now)

	ran := time.Duration(0)
	if requests > 0 {
		ran = now.Sub(st.since)
	}
	if l.g.journal != nil {
		here := b.belief.cost(actual)
		l.g.keepEnd(now, p, &st, Charge{booked, b.cost, b.spend}, Charge{cost, here, believed})
		l.keepRest(Record{Tenant: b.books, Held: b.at, Began: st.since, Ended: now, Took: Charge{Own: actual.Plus(here, -1), Spend: spent.less(believed)}})
	}
	asked := b.asked
	price := b.price
	l.g.leave(now, b, actual, spent, ran)
	if l.g.events.listened() {
		l.g.tellEnd(p, &st, Event{At: now, Call: asked, Ending: how, Usage: u, MicroUSD: spent[UnitMicroUSD], Request: Request{Price: price}})
	}
	return true
}

// tookLocked is the cost of a usage on rolling limits, those of the pool and of tenants alike.
func (l *Lease) tookLocked(u Usage, requests int64) limits.Cost {
	w := &l.pool.weights
	cost := w.ownCost(u, requests)
	if l.before == (Booked{}) {
		return cost
	}
	before := w.holdCost(&Request{Input: l.before.Input, Output: l.before.Output})
	for k := limits.Tokens; k <= limits.Output; k++ {
		cost[k] = max(0, cost[k]-before[k])
	}
	return cost
}

// Progress tells how many tokens the call has produced so far. Calling it a few times a second is
// enough. Where the provider counts tokens as they are produced, they are booked now.
func (l Lease) Progress(output int64) {
	switch {
	case l.pool == nil:
	case l.g.line == nil:
		l.progress(bounded(output))
	default:
		l.g.line.instant(func() { l.progress(bounded(output)) })
	}
}

func (l Lease) progress(output int64) {
	p := l.pool
	now := l.g.clock.Now()
	p.mu.Lock()
	if !p.escrow.Running(l.handle) {
		p.mu.Unlock()
		return
	}
	st := &p.leases[l.handle.Slot]
	if !st.flowing && st.stream {
		p.observeLocked(now, st, st.input)
	}
	st.flowing = true
	st.output = output
	l.g.queueDetail(Event{Kind: EventProgress, Call: st.holds.asked, Usage: Usage{Output: output}})
	p.progressLocked(now, l.handle, st)
	grown := p.grownLocked(st)
	if p.escrow.Waiting() > 0 { // this may tell when there will be room
		l.g.pumpAndUnlock(p, now)
	} else {
		p.mu.Unlock()
	}
	l.g.deliver()
	if grown.Kind != 0 {
		_ = l.g.journal.Append(grown) // the journal reports errors itself, and the call is under way
	}
}

// Remaining is how much longer the call is expected to run, given how long calls of its kind ran;
// while nothing is known of these, as long as it has run so far. It is 0 if the lease has ended. It
// changes nothing.
func (l Lease) Remaining() time.Duration {
	if l.pool == nil {
		return 0
	}
	l.g.look()
	p := l.pool
	now := l.g.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.escrow.Running(l.handle) {
		return 0
	}
	p.lookLocked(true)
	defer p.lookLocked(false)
	st := &p.leases[l.handle.Slot]
	ran := now.Sub(st.since)
	speed := float64(p.speed) / 1000
	produced := int64(min(ran, longestRun).Seconds() * speed)
	if st.flowing { // only streams report progress
		produced = st.output
		if produced > 0 && ran > 0 {
			speed = float64(produced) / ran.Seconds()
		}
	}
	return p.remainingLocked(st.course, ran, min(produced, st.course.most), speed)
}

// remainingLocked is how much longer a call is expected to run that has run for so long and
// produced so much. It goes by how long such calls run, if that is known, and else by how much they
// produce, at speed tokens a second. If that is not known either, the most that it may produce says
// little: a call of 2 s may declare tokens for a minute. Then it is expected to run as long again, at
// most: a caller that comes back at that time waits no longer than twice as long as the call runs.
func (p *pool) remainingLocked(c course, ran time.Duration, produced int64, speed float64) time.Duration {
	if p.rules.Concurrency > 0 {
		run := time.Duration(p.runs.ReachOf(c.kind, longestRun.Milliseconds(), ran.Milliseconds())) * time.Millisecond
		if run < longestRun {
			return max(0, run-ran)
		}
	}
	left := p.outputs.ReachOf(c.kind, c.most, produced) - produced
	longest := longestRun
	if !p.outputs.Knows(c.kind, c.most) {
		longest = min(longest, ran)
	}
	return time.Duration(min(float64(left)/max(speed, 0.001), longest.Seconds()) * float64(time.Second))
}
