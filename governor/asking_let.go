package governor

import "time"

// let books a call that was let in against all limits that hold for it: its cost, and of each
// budget what given says. What it takes is added to the grants.
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
	o.applyGrantsLocked()
	for _, a := range o.caps {
		b.caps = append(b.caps, a.let(now, given(a)))
	}
}

// let holds an amount, in the books' units, and enlarges the grant by it.
func (a *account) let(now time.Time, amount int64) held {
	a.advance(now)
	a.granted += amount
	a.cap.SetLimit(max(a.cap.Limit(), a.cap.Counted()+amount))
	h, _ := a.cap.Hold(now, amount)
	a.applyGrant()
	a.pending += h.Amount()
	a.last = max(1, amount)
	return held{account: a, hold: h, till: a.ends}
}
