package governor

import "time"

// let books a call that was let in against all quotas that hold for it: its cost, and of each
// budget what given says. What it takes is added to this process's parts.
func (b *tab) let(now time.Time, s Spend, given func(*account) int64) {
	b.spend = s
	b.at = now
	for i := len(b.holds); i < len(b.chain); i++ {
		q := b.chain[i].q
		q.mu.Lock()
		q.advanceLocked(now)
		b.letLocked(now, q, given)
		q.mu.Unlock()
	}
}

// letLocked books a call against the next quota of its chain, which is locked.
func (b *tab) letLocked(now time.Time, q *quota, given func(*account) int64) {
	if len(b.holds) == 0 {
		b.meanRun = q.meanRun
	}
	b.holds = append(b.holds, q.letLocked(q.clipLocked(b.cost)))
	for _, a := range q.caps {
		b.caps = append(b.caps, a.let(now, given(a)))
	}
}

// letLocked books a cost and enlarges the parts by it.
func (q *quota) letLocked(cost ownCost) quotaHold {
	c := q.common
	for k, n := range cost {
		c.parts[k] += n
	}
	c.parts[ownAxes]++
	c.let++
	q.limitLocked()
	return q.countLocked(cost)
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
	q := t.link.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.budget != nil {
		t.budget.known += t.budget.units(amount)
		return
	}
	q.common.known[t.axis] += amount
}

// Gives reports whether less is used here than the store believes, so that others could have the
// difference.
func (s *SharedLimits) Gives(now time.Time) bool {
	q := s.q
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.common
	if !c.asking || !c.inUse {
		return false
	}
	q.advanceLocked(now)
	for k, l := range q.ledgers {
		if l != nil && l.Used() < c.known[k] {
			return true
		}
	}
	if q.concurrency > 0 && q.running < c.known[ownAxes] {
		return true
	}
	for _, a := range q.caps {
		if a.used(now) < a.known {
			return true
		}
	}
	return false
}
