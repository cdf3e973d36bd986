package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/placement"
	"github.com/llmgov/llmgov/governor/record"
	"github.com/llmgov/llmgov/governor/terms"
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
func (l *Lease) spent(u Usage, requests int64, held *Price) terms.Spend {
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

func (l *Lease) end(u Usage, requests int64, how Ending) bool {
	if l.pool == nil {
		return false
	}
	g := l.g
	e, ok := l.endNow(g.lock(), u, requests, how)
	if !ok {
		g.unlock()
		return false
	}
	if g.recorded {
		g.aside(func() { e.keep(g.journal) }) // within the instant, as the start
		if g.events.listened() {
			g.events.add(e.told(l.pool, u, how))
		}
		g.unlock()
		return true
	}
	g.unlock()
	e.keep(g.journal)
	if g.events.listened() {
		g.events.tell(e.told(l.pool, u, how))
	}
	return true
}

// ended is a lease that has ended, for those who are told of it when the lock is free.
type ended struct {
	st       leaseState // its holds are another call's already
	now      time.Time
	asked    uint64
	price    *Price
	microUSD int64
	records  [2]record.Record
}

// keep journals the end. If that fails the admission stands, and after a restart the call counts at its booked cost; the journal
// reports errors itself.
func (e *ended) keep(j Journal) {
	for i := range e.records {
		if e.records[i].Kind != 0 && j.Append(e.records[i]) != nil {
			return
		}
	}
}

// told is how the lease ended, for the Observer.
func (e *ended) told(p *pool, u Usage, how Ending) Event {
	return Event{
		Kind: EventEnded, At: e.now, Call: e.asked, Ending: how, Usage: u, MicroUSD: e.microUSD, Ran: e.now.Sub(e.st.since),
		Request: Request{ID: e.st.id, Tenant: e.st.tenant.name, Pool: p.name, Model: modelOf(e.st.course.kind), Stream: e.st.stream, Input: e.st.input, Price: e.price},
	}
}

func (l *Lease) endNow(now time.Time, u Usage, requests int64, how Ending) (e ended, ok bool) {
	if l.commitment != nil {
		return l.commitment.end(now, l, u)
	}
	p := l.pool
	w := &p.weights
	p.ends(now, l.handle, u, how)
	actual := l.took(u, requests)
	cost := placement.PoolCost(p.believed(l.handle, actual))
	booked := p.escrow.CostOf(int(l.handle.Slot))
	fair := w.fair(u)
	if how == EndPostponed && p.escrow.Running(l.handle) {
		postponed := &p.leases[l.handle.Slot]
		cost = booked
		actual = postponed.holds.cost
		fair = w.fair(Usage{Input: postponed.input, Output: p.outputs.Expect(&postponed.course.output)})
	}
	e.st, ok = p.end(now, l.handle, taking{cost, fair, u, how == EndSettled})
	if !ok {
		return e, false
	}
	p.ended(now, &e.st, u, how)
	l.g.stir(p, now)
	b := e.st.holds
	spent := l.spent(u, requests, b.price)
	believed := b.belief.spend(spent)
	b.ended = l.g.tally.note(now, &e.st, p.name, believed, spent.Minus(believed))
	p.bookEnded(now, e.st.seat, b.shares, believed)
	p.settleShares(now, b, believed)
	l.g.pump(p, now)

	ran := time.Duration(0)
	if requests > 0 {
		ran = now.Sub(e.st.since)
	}
	e.now = now
	e.asked = b.asked
	e.price = b.price
	e.microUSD = spent[UnitMicroUSD]
	if l.g.journal != nil {
		here := b.belief.cost(actual)
		e.records[0] = p.endRecord(now, &e.st, record.Charge{Pool: booked, Own: b.cost, Spend: b.spend}, record.Charge{Pool: cost, Own: here, Spend: believed})
		e.records[1] = l.restRecord(record.Record{Tenant: b.books, Held: b.at, Began: e.st.since, Ended: now, Took: record.Charge{Own: actual.Plus(here, -1), Spend: spent.Minus(believed)}})
	}
	l.g.leave(now, b, actual, spent, ran)
	return e, true
}

// Took is what a usage of the call takes of its pool's limits a minute.
func (l Lease) Took(u Usage) limits.Cost {
	if l.pool == nil {
		return limits.Cost{}
	}
	l.g.look()
	defer l.g.unlock()
	return l.took(u.Bounded(), 1)
}

// took is the cost of a usage on rolling limits, those of the pool and of tenants alike.
func (l *Lease) took(u Usage, requests int64) limits.Cost {
	w := &l.pool.weights
	cost := w.ownCost(u, requests)
	if l.before == (Booked{}) {
		return cost
	}
	before := w.holdCost(&Request{Input: l.before.Input, Output: l.before.Output})
	for k := limits.Tokens; int(k) < limits.Kinds; k++ {
		cost[k] = max(0, cost[k]-before[k])
	}
	return cost
}

// Progress tells how many tokens the call has produced so far. Calling it a few times a second is
// enough. Where the provider counts tokens as they are produced, they are booked now.
func (l Lease) Progress(output int64) {
	if l.pool == nil {
		return
	}
	now := l.g.lock()
	grown := l.progress(now, bounded(output))
	l.g.unlock()
	if grown.Kind != 0 {
		_ = l.g.journal.Append(grown) // the journal reports errors itself, and the call is under way
	}
}

// progress returns what of it the journal has to know.
func (l *Lease) progress(now time.Time, output int64) record.Record {
	p := l.pool
	if !p.escrow.Running(l.handle) {
		return record.Record{}
	}
	st := &p.leases[l.handle.Slot]
	if !st.flowing() {
		st.flowed = now
		st.early = output
		if st.stream {
			p.observe(now, st, st.input)
		}
	}
	st.output = output
	l.g.queueDetail(Event{Kind: EventProgress, Call: st.holds.asked, Usage: Usage{Output: output}})
	p.progress(now, l.handle, st)
	if p.escrow.Waiting() > 0 { // this may tell when there will be room
		l.g.pump(p, now)
	}
	return p.grown(st)
}

// Remaining is how much longer the call is expected to run, given how long calls of its kind ran;
// while nothing is known of these, as long as it has run so far. It is 0 if the lease has ended. It
// changes nothing.
func (l Lease) Remaining() time.Duration {
	if l.pool == nil {
		return 0
	}
	now := l.g.look()
	defer l.g.unlock()
	p := l.pool
	if !p.escrow.Running(l.handle) {
		return 0
	}
	p.look(true)
	defer p.look(false)
	st := &p.leases[l.handle.Slot]
	ran := now.Sub(st.since)
	speed := float64(p.speed) / 1000
	produced := int64(min(ran, longestRun).Seconds() * speed)
	if st.flowing() { // only streams report progress
		produced = st.output
		if produced > 0 && ran > 0 {
			speed = float64(produced) / ran.Seconds()
		}
	}
	return p.remaining(st.course, ran, min(produced, st.course.most), speed)
}

// remaining is how much longer a call is expected to run that has run for so long and
// produced so much. It goes by how long such calls run, if that is known, and else by how much they
// produce, at speed tokens a second. If that is not known either, the most that it may produce says
// little: a call of 2 s may declare tokens for a minute. Then it is expected to run as long again, at
// most: a caller that comes back at that time waits no longer than twice as long as the call runs.
func (p *pool) remaining(c course, ran time.Duration, produced int64, speed float64) time.Duration {
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
