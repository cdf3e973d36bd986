package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
)

// let books a call that was let in against all limits that hold for it: its cost, and of each
// budget what given says. What it takes is added to this process's parts.
func (b *tab) let(now time.Time, s Spend, given func(*account) int64) {
	b.spend = s
	b.at = now
	for i := len(b.holds); i < len(b.chain); i++ {
		o := b.chain[i].own
		o.mu.Lock()
		o.advanceLocked(now)
		b.letLocked(now, o, given)
		o.mu.Unlock()
	}
}

// letLocked books a call against the next limits of its chain, which are locked.
func (b *tab) letLocked(now time.Time, o *ownLimits, given func(*account) int64) {
	if len(b.holds) == 0 {
		b.meanRun = o.set.MeanRun()
	}
	b.holds = append(b.holds, o.set.Admit(o.set.Clip(b.cost)))
	o.limitCapsLocked()
	for _, a := range o.caps {
		b.caps = append(b.caps, a.let(now, given(a)))
	}
}

// let holds an amount, in the books' units, and enlarges the part by it.
func (a *account) let(now time.Time, amount int64) held {
	a.advance(now)
	a.part += amount
	a.cap.SetLimit(max(a.cap.Limit(), a.cap.Counted()+amount))
	h, _ := a.cap.Hold(now, amount)
	a.limitCap()
	a.pending += h.Amount()
	a.last = max(1, amount)
	return held{account: a, hold: h, till: a.ends}
}

// known notes that the store now believes that so much more is used here.
func (t *take) known(amount int64) {
	o := t.link.own
	o.mu.Lock()
	defer o.mu.Unlock()
	if t.budget != nil {
		t.budget.known += t.budget.units(amount)
		return
	}
	o.common.known[t.axis] += amount
}

// Gives reports whether less is used here than the store believes, so that others could have the
// difference.
func (s *SharedLimits) Gives(now time.Time) bool {
	o := s.own
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.common
	if !c.asking || !c.inUse {
		return false
	}
	o.advanceLocked(now)
	for k := range limits.Axis(limits.Axes) {
		if o.set.Limit(k) > 0 && o.set.UsedHere(k) < c.known[k] {
			return true
		}
	}
	for _, a := range o.caps {
		if a.used(now) < a.known {
			return true
		}
	}
	return false
}
