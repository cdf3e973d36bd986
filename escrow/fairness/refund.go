package fairness

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// The refund of a call at its end was charged when it was dispatched, and that is when it
// counts less. Counted at its end instead, a pool that has just learned how short calls are would
// seem to hand out nothing for a minute: it gives back charges from before that.

// Mark is the mark for calls (escrow.Pool.Mark) from a time on at which the meter
// is told of the pool, or at which that begins to be used: so long after the meter's beginning.
func Mark(at time.Duration) int64 { return int64(at / slotLength) }

// refund takes the refunds of calls since the last step off the slots in which they were dispatched, and
// returns how much that is in all.
func (l *Leaf) refund(mark int64, a *escrow.Account) (sum float64) {
	for k := range l.back {
		of := mark - int64(k)
		l.back[k] = 0
		if of < 0 {
			continue
		}
		i := of % escrow.Marks
		back := float64(a.Refunded[i] - l.was.refunded[i])
		l.back[k] = back
		if back != 0 {
			l.cellAt(of).received -= back
		}
		sum += back
	}
	return sum + float64(a.RefundedLate-l.was.late) // of slots that have left the minute
}

// takeBack takes the same off the entitlements of leaves then. Who waits for nothing had all it
// asked for, and was entitled to so much less. Those who wait shared the amount there was, and so they
// share the loss.
func (m *Meter) takeBack() {
	for k := range min(escrow.Marks, m.mark+1) {
		backs := 0.0
		entitled := 0.0
		for _, l := range m.leaves {
			if l.waiting > 0 {
				backs += l.back[k]
				entitled += l.entitledIn(m.mark - k)
			}
		}
		for _, l := range m.leaves {
			less := l.back[k]
			if l.waiting > 0 && entitled > 0 {
				less = backs * l.entitledIn(m.mark-k) / entitled
				l.lag += l.back[k] - less
			}
			l.entitle(m.mark-k, -less)
		}
	}
}

// entitledIn is the entitlement of the leaf in a slot.
func (l *Leaf) entitledIn(slot int64) float64 {
	if l.window == nil {
		return 0
	}
	return max(0, l.cellAt(slot).entitled)
}
