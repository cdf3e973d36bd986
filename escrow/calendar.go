package escrow

import (
	"math"
	"time"

	"github.com/llmgov/llmgov/internal/lib/muldiv"
)

// calendarSlots is how finely a calendar's minute is cut: a quarter of a second,
// the beat at which streams are planned anew.
const calendarSlots = 240

// grain is how many parts of a token a calendar counts, so that a slow stream's
// rate is not rounded away.
const grain = 1000

// calendar is a ledger that also has future slots: it holds the tokens that streams have produced, and
// the tokens that they are expected to produce, each in its slot of time.
// Booking a stream's tokens when it is admitted, even with its exact length, is
// wrong by its duration; booking its largest possible length is wrong by a factor.
//
// The plan is kept as the changes of its rate, so that planning a stream anew
// costs the same whatever its length. A planned slot counts as used once it is
// entered; a difference from it is corrected by the next Progress.
//
// Streams are planned from now on at a steady rate, so the planned rate only falls with time, and no
// window after the next one can be fuller than the windows that fits examines.
type calendar struct {
	ledger *Ledger // of grains, past and current slot
	// change is by how much the planned rate changes as a slot begins: a ring over
	// the slots to come.
	change []int64
	rate   int64 // planned for the current slot, and booked
	ahead  int64 // planned for the slots to come
}

// horizon is how many slots ahead a plan reaches: four minutes. What a stream
// produces later enters the plan as it is planned anew.
const horizon = 4 * calendarSlots

func newCalendar(now time.Time, limit int64) *calendar {
	return &calendar{ledger: NewLedger(now, limit*grain, calendarSlots), change: make([]int64, horizon+2)}
}

// plan is one stream's part of a calendar: first grains in what was left of slot
// from, perSlot in each slot between, and the rest in slot to. It is booked as far as
// time has passed. The zero plan is of a call that has none.
type plan struct {
	from, to             int64
	first, perSlot, rest int64
}

// advance enters the slots until now.
func (c *calendar) advance(now time.Time) {
	target := int64(now.Sub(c.ledger.epoch) / c.ledger.slot)
	for n := 0; c.ledger.cur < target && n <= horizon; n++ {
		c.ledger.turn()
		change := c.at(c.ledger.cur)
		c.rate += *change
		*change = 0
		c.ahead -= c.rate
		c.ledger.Book(c.rate)
	}
	c.ledger.Advance(now) // beyond the horizon nothing is planned
}

// at is where the change at a slot to come lies in the ring.
func (c *calendar) at(slot int64) *int64 { return &c.change[slot%int64(len(c.change))] }

// lay plans so many grains from now on, so many of them a slot, or, with 0, all at
// once; and books those of the current slot.
func (c *calendar) lay(now time.Time, remaining, perSlot int64) plan {
	cur := c.ledger.cur
	p := plan{from: cur, perSlot: max(1, perSlot), first: min(remaining, c.left(now, perSlot))}
	perSlot = p.perSlot
	remaining -= p.first
	p.to = cur + 1 + remaining/perSlot
	p.rest = remaining % perSlot
	if p.to > cur+horizon {
		p.to = cur + horizon
		p.rest = 0
	}
	c.ledger.Book(p.in(cur))
	c.shift(p, 1)
	return p
}

// left is the part of a whole slot's grains that falls into the rest of the current slot,
// rounded up: all of them, if they come at once.
func (c *calendar) left(now time.Time, perSlot int64) int64 {
	if perSlot <= 0 {
		return math.MaxInt64
	}
	left := c.ledger.startOf(c.ledger.cur + 1).Sub(now)
	return muldiv.Ceil(perSlot, int64(max(0, left)), int64(c.ledger.slot))
}

// lift takes the part of p that is still to come out of the plan.
func (c *calendar) lift(p plan) { c.shift(p, -1) }

// shift adds (by = 1) or takes away (by = -1) the slots to come of p.
func (c *calendar) shift(p plan, by int64) {
	c.span(p.from+1, p.to, by*p.perSlot)
	if p.rest > 0 {
		c.span(p.to, p.to+1, by*p.rest)
	}
}

// span changes the planned rate by x in [from, to), as far as that is to come.
func (c *calendar) span(from, to, x int64) {
	next := c.ledger.cur + 1
	if to <= next {
		return
	}
	if from < next {
		from = next
	}
	*c.at(from) += x
	*c.at(to) -= x
	c.ahead += x * (to - from)
}

// in is the number of grains that p has in a slot.
func (p plan) in(slot int64) int64 {
	switch {
	case slot < p.from || slot > p.to:
		return 0
	case slot == p.from:
		return p.first
	case slot < p.to:
		return p.perSlot
	}
	return p.rest
}

// upTo is the number of grains that p has up to and with a slot.
func (p plan) upTo(slot int64) int64 {
	if slot < p.from {
		return 0
	}
	sum := p.first + (min(slot, p.to-1)-p.from)*p.perSlot
	if slot >= p.to {
		sum += p.rest
	}
	return sum
}

// replace counts so many grains as produced since p was laid, in place of what p
// has booked since. A surplus counts now; a shortfall is taken back from the
// latest slots.
func (c *calendar) replace(p plan, produced int64) {
	l := c.ledger
	d := produced - p.upTo(l.cur)
	if d >= 0 {
		l.Book(d)
		return
	}
	for slot := l.cur; d < 0 && slot >= p.from && slot > l.cur-int64(len(l.slots)); slot-- {
		back := max(d, -p.in(slot))
		l.Correct(slot, back)
		d -= back
	}
}

// fits reports whether a call fits that takes some grains at once, and others from
// now on, so many a slot: in every window that ends within the next one. It walks none
// of them while all that is booked and planned would fit into one.
func (c *calendar) fits(now time.Time, atOnce, remaining, perSlot int64) bool {
	l := c.ledger
	sum := l.booked + atOnce
	if sum+c.ahead+remaining <= l.limit {
		return true
	}
	n := int64(len(l.slots))
	ring := int64(len(c.change))
	first := min(remaining, c.left(now, perSlot))
	rate := c.rate
	perSlot = max(1, perSlot)
	remaining -= first
	sum += first
	if sum > l.limit {
		return false
	}
	// Both rings are walked in stretches in which neither wraps.
	for left, at := n-1, l.cur+1; left > 0; {
		i := at % n
		k := at % ring
		stretch := min(left, n-i, ring-k)
		changes := c.change[k : k+stretch]
		for x, leaving := range l.slots[i : i+stretch] {
			rate += changes[x]
			own := min(perSlot, remaining)
			remaining -= own
			sum += rate - leaving + own
			if sum > l.limit {
				return false
			}
		}
		left = left - stretch
		at += stretch
	}
	// The first window without the current slot, of which only a part is left.
	rate += *c.at(l.cur + n)
	return sum+rate-l.fresh+min(perSlot, remaining)-atOnce-first <= l.limit
}

// freeAt is when a call will fit that takes some grains at once and others from
// then on, so many a slot, if nothing else is admitted. A later start takes less of every
// window, so the latest of the starts that the windows ask for is the answer.
func (c *calendar) freeAt(atOnce, remaining, perSlot int64) time.Time {
	l := c.ledger
	n := int64(len(l.slots))
	if perSlot <= 0 {
		atOnce = atOnce + remaining
		remaining = 0
		perSlot = 1
	}
	sum := l.booked
	rate := c.rate
	at := l.cur
	for j := range n + 1 {
		if room := l.limit - sum; room < atOnce {
			at = l.cur + j + 1
		} else if room < atOnce+remaining {
			at = max(at, l.cur+j+1-(room-atOnce)/perSlot)
		}
		rate += *c.at(l.cur + j + 1)
		sum += rate - *l.at(l.cur + j + 1 - n)
	}
	return l.startOf(at)
}

// used is the use of the current window, in tokens, rounded up.
func (c *calendar) used() int64 { return (c.ledger.booked + grain - 1) / grain }
