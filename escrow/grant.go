package escrow

import (
	"time"

	"github.com/llmgov/llmgov/internal/lib/muldiv"
)

// Allowance is the amount that a pool may hand out of one axis while its limit is shared with
// other processes: an envelope, Level and Rate from Since until Until. It takes the
// place of the taut string, which whoever shares the limit out draws over the use of
// all (package federation).
type Allowance struct {
	Since, Until time.Time
	// Level is the amount that might be handed out at Since, and Rate, in units a Window, the amount
	// added as time passes.
	Level, Rate int64
	// Spent is Pool.Spent as of Since.
	Spent int64
	// Spare is how much more may come, as of Since, because nobody uses it: Saved of it with the next allowance, and the rest at the rate of
	// the limit.
	Spare, Saved int64
}

// Left is the amount that may still be handed out at now, given Pool.Spent as of now. It is
// negative where more was taken than was allowed, as by a call that took more than it
// declared.
func (a Allowance) Left(now time.Time, spent int64) int64 {
	left := a.Spent - spent
	if now.Before(a.Until) {
		left += a.Level + muldiv.Floor(a.Rate, max(0, int64(now.Sub(a.Since)/time.Microsecond)), windowMicros)
	}
	return min(left, MaxLimit)
}

// Allow puts an allowance of an axis in force, in place of the one before. It changes
// nothing in a pool that is not Shared, nor of an axis without a limit. Call Pump
// afterwards.
func (p *Pool) Allow(now time.Time, k Axis, a Allowance) {
	p.advance(now)
	if pace := &p.axes[k].pace; pace.granted {
		pace.allowance = a
		pace.usual = max(a.Rate, pace.usual-pace.usual/usualFades)
		if p.nodes[Root].backlog == 0 {
			pace.sated = now
		}
		pace.follow()
	}
}

// usualFades makes the usual rate fall by 1/usualFades with each allowance that is smaller.
const usualFades = 32

// grantsMove is how long it takes until an allowance comes that was asked for.
const grantsMove = 250 * time.Millisecond

// grantWait predicts when so much comes for a call that nobody uses: with the next allowance within the time that it may wait, because a
// call is let wait for that, and later at the rate of the limit.
func (p *pace) grantWait(e *entry, later int64) time.Duration {
	wait := grantsMove
	if e.maxWait > 0 {
		wait = min(wait, e.maxWait)
	}
	return max(wait, p.refillTime(later, p.limit*p.scale))
}

// comes reports whether so much more than the level may come because nobody uses it, and how much of that not with the next allowance.
func (p *pace) comes(lack int64) (later int64, ok bool) {
	used := p.spent - p.allowance.Spent
	ok = p.granted && lack > 0 && lack <= p.allowance.Spare-used
	return max(0, lack-max(0, p.allowance.Saved-used)), ok
}

// GrantComes reports whether a call lacks nothing of the rolling axes but what may come with the next allowance.
func (p *Pool) GrantComes(now time.Time, c *Call) bool {
	p.advance(now)
	e := p.entryOf(c)
	lacks := false
	for k := range p.axes {
		a := &p.axes[k]
		if lack := e.cost[k] - a.pace.level; a.on && lack > 0 {
			if later, comes := a.pace.comes(lack); !comes || later > 0 {
				return false
			}
			lacks = true
		}
	}
	return lacks
}

// Spent is how much of an axis was handed out since the pool began: as calls were
// booked, and their cost beyond that. Refunds are not taken off.
func (p *Pool) Spent(k Axis) int64 { return p.axes[k].pace.spent }

// Refunded is how much of Spent was given back since.
func (p *Pool) Refunded(k Axis) int64 { return p.axes[k].pace.spent - p.axes[k].pace.handed }

// Allowed is the allowance of an axis in force, and its rest.
func (p *Pool) Allowed(now time.Time, k Axis) (a Allowance, left int64) {
	p.advance(now)
	pace := &p.axes[k].pace
	if !pace.granted {
		return Allowance{}, 0
	}
	return pace.allowance, pace.level
}

// Head is the cost at which the first call in the queue will be booked, as of the last Pump: none
// where nobody was left waiting. A background call that waits for a slot is not first.
func (p *Pool) Head() Cost { return p.first }

// Largest is the largest call of late. It counts for half after 35 s.
func (p *Pool) Largest() (c Cost) {
	for k := range p.axes {
		c[k] = p.axes[k].pace.largest
	}
	c[Requests] = 1
	return c
}

// share decides whether the level follows an allowance from now on, or the string.
func (p *pace) share(shared bool) {
	if shared == p.granted {
		return
	}
	p.granted = shared
	p.allowance = Allowance{Spent: p.spent}
	p.sated = p.last
	p.level = 0
	p.rate = p.steady()
}

// back is the part of a refund that may be handed out again: of an allowance none, for it
// is for whoever shares the limit out.
func (p *pace) back(refund int64) int64 {
	if p.granted {
		return 0
	}
	return refund
}

// follow sets level and rate by the allowance.
func (p *pace) follow() {
	p.level = p.allowance.Left(p.last, p.spent)
	p.fraction = 0
	p.rate = 0
	if p.last.Before(p.allowance.Until) {
		p.rate = min(p.allowance.Rate, p.limit) * p.scale
		// Within a minute of the largest rate, the product stays below 2⁶³.
		grown := p.allowance.Rate * max(0, int64(p.last.Sub(p.allowance.Since)/time.Microsecond))
		p.fraction = grown % windowMicros * p.scale
	}
}

// Booking is the amount that a pool has booked in a stretch of time that ends at End: calls that
// ran and run, or, if it is Planned, the expected use of running calls in it.
type Booking struct {
	End     time.Time
	Axis    Axis
	Cost    int64
	Planned bool
}

// Bookings tells of all that is booked in the last Window and planned for the next,
// but for holds, the sum of which it returns: those count at all times. Stretches in which
// nothing is booked are left out.
func (p *Pool) Bookings(now time.Time, tell func(Booking)) (held Cost) {
	p.advance(now)
	for k := range p.axes {
		a := &p.axes[k]
		if !a.on {
			continue
		}
		l, unit := a.booked()
		for slot := l.cur - int64(len(l.slots)) + 1; slot <= l.cur; slot++ {
			if c := *l.at(slot); c != 0 {
				tell(Booking{l.startOf(slot + 1), Axis(k), ceilDiv(c, unit), false})
			}
		}
		held[k] = l.held
		if a.cal != nil {
			a.cal.planned(func(end time.Time, grains int64) { tell(Booking{end, Axis(k), ceilDiv(grains, unit), true}) })
		}
	}
	return held
}

// planned returns the plan for each slot of the next Window.
func (c *calendar) planned(tell func(end time.Time, grains int64)) {
	rate := c.rate
	for slot := c.ledger.cur + 1; slot <= c.ledger.cur+calendarSlots; slot++ {
		rate += *c.at(slot)
		if rate > 0 {
			tell(c.ledger.startOf(slot+1), rate)
		}
	}
}

// Demand is the demand at one node.
type Demand struct {
	// Served is the virtual cost of all calls that were ever let go here, and Units what
	// they were expected to take.
	Served int64
	Units  Cost
	// Waiting is the virtual cost of the calls that wait below the node, and WaitingUnits what they
	// will be booked at. Due, for a leaf, is the part of Waiting that kept places are: those whose
	// time is near, because nobody comes back to the others now.
	Waiting      int64
	WaitingUnits Cost
	Due          int64
	// Again is the virtual cost of all calls that were ever refused here with a place kept, and
	// whose callers may have another place already: they were refused before, or nobody knows
	// whether they were.
	Again int64
	// Away is the virtual cost of all calls that were refused and have no place.
	Away int64
	// Call is the virtual cost of the last call that was refused, and CallUnits what it was
	// expected to take.
	Call      int64
	CallUnits Cost
}

// Demand reports the demand at a node: of inner nodes without kept places, and only of waiting calls, but of the parents of Joined ones.
func (p *Pool) Demand(i NodeID) Demand {
	n := &p.nodes[i]
	d := p.toldOf(i).demand
	d.Waiting = n.backlog - n.promised
	for t := n.tickets.head; n.inner == nil && t >= 0 && p.micros(p.entries[t].promised) <= p.now+dueBefore; t = p.entries[t].next {
		if p.now < p.entries[t].told+lateAfter {
			d.Due += p.entries[t].virtual
		}
	}
	d.Waiting += d.Due
	d.WaitingUnits = n.bookedFor(d.Waiting)
	return d
}

// A kept place is due from dueBefore its promised time on, in µs, because a share takes about as long to
// come. Nobody is expected at it any more lateAfter the time that its caller was told, the time that a
// call takes to arrive.
const (
	dueBefore = int64(time.Second / time.Microsecond)
	lateAfter = int64(250 * time.Millisecond / time.Microsecond)
)

// Share scales a node's weight and floor by ppm millionths: the part of its demand that comes to
// this process, where a limit is shared with others. Debt keeps its cost. Call Pump afterwards.
func (p *Pool) Share(i NodeID, ppm int64) {
	p.nodes[i].share = min(max(ppm, 1), shareWhole)
	p.describe(i, p.nodes[i].claim)
}

// shareWhole is the share of a node all of whose demand comes to this process.
const shareWhole = 1_000_000

// scaled is the claim as it counts at a share of ppm millionths.
func (n Node) scaled(ppm int64) Node {
	if ppm < shareWhole {
		n.Weight = max(MinWeight, Weight(muldiv.Ceil(n.Weight.Thousandths(), ppm, shareWhole))/weightOne)
		n.Floor = n.Floor * ppm / shareWhole // at most a limit, so the product fits
	}
	return n
}

// ceilDiv is a/b rounded up, for a ≥ 0.
func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// letGo notes a call that a leaf is served, in a shared pool.
func (p *Pool) letGo(e *entry) {
	if !p.cfg.Shared || e.forced {
		return
	}
	d := &p.toldOf(e.leaf).demand
	d.Served += e.virtual
	d.Units = d.Units.plus(e.expected())
}

// sentAway notes a call that a leaf is refused, in a shared pool. A caller with a key, or one that comes
// for the first time, has one place at most; one that came back to its place had it before.
func (p *Pool) sentAway(c *Call, e *entry, ticket int32, kept bool) {
	if !p.cfg.Shared {
		return
	}
	d := &p.toldOf(e.leaf).demand
	d.Call = e.virtual
	d.CallUnits = e.expected()
	if !kept {
		d.Away += e.virtual
	}
	if ticket < 0 && c.Claim.Key == 0 && c.Claim.Retry != RetryFirst {
		d.Again += e.virtual
	}
}
