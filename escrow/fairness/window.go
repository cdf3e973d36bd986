package fairness

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// A window is the last minute of a leaf, cut into slots. The oldest slot counts by the
// part of it that is in the minute still.
const (
	slotLength = window / escrow.Marks
	slots      = int64(window/slotLength) + 1
	window     = time.Minute
)

// cell sums up a slot, as virtual costs.
type cell struct{ received, entitled, turned float64 }

func (c *cell) add(d cell, part float64) {
	c.received += d.received * part
	c.entitled += d.entitled * part
	c.turned += d.turned * part
}

// Leaf is the record of one claim. It lives on when the tree around it changes.
type Leaf struct {
	was     counters // at the last step
	waiting float64  // at the last step, and the usual cost of a call
	usual   float64

	// lag is the service of the fluid server, less the real one; and ahead the part that it
	// will have of the pool's lead over its rate, if nobody comes.
	lag, ahead float64

	window *[slots]cell // nil while nothing is in it

	back [escrow.Marks]float64 // given back since the last step, by how many slots before the mark

	// Tokens, in all so far.
	borrowed, lent float64
}

// counters are a leaf's that only grow, but for corrections.
type counters struct {
	received, turned int64
	refunded         [escrow.Marks]int64
	late             int64
}

func countersOf(a *escrow.Account) counters {
	return counters{a.Received, a.Turned, a.Refunded, a.RefundedLate}
}

// cellAt is the cell of a slot.
func (l *Leaf) cellAt(slot int64) *cell {
	if l.window == nil {
		l.window = &[slots]cell{}
	}
	return &l.window[slot%slots]
}

// turn makes room for a new slot, and lets go of a window in which nothing is left.
func (l *Leaf) turn(slot int64) {
	if l.window == nil {
		return
	}
	l.window[slot%slots] = cell{}
	if *l.window == [slots]cell{} {
		l.window = nil
	}
}

// minute is the sum of the last minute, at a time since the meter began.
func (l *Leaf) minute(at time.Duration) (sum cell) {
	if l.window == nil {
		return cell{}
	}
	cur := int64(at / slotLength)
	oldest := 1 - float64(at%slotLength)/float64(slotLength)
	for i := range l.window {
		part := 1.0
		if int64(i) == (cur+1)%slots {
			part = oldest
		}
		sum.add(l.window[i], part)
	}
	return sum
}
