package governor

import (
	"context"
	"slices"
	"time"
)

// enter holds a call's cost of the tenant's own limits. Over a limit the call
// waits here, in order of arrival and beside the pool's queue, where it blocks
// nobody else. It returns the time at which the hold began.
func (g *Governor) enter(ctx context.Context, t *tenant, now time.Time, c ownCost, maxWait time.Duration) (ownHold, time.Time, *Rejection) {
	t.mu.Lock()
	t.advanceLocked(now)
	for k, l := range t.ledgers {
		if l != nil {
			c[k] = min(c[k], l.Limit())
		}
	}
	if _, fits := t.fitsLocked(c); fits && len(t.line) == 0 {
		h := t.bookLocked(c)
		t.mu.Unlock()
		return h, now, nil
	}
	if rej := t.refuseLocked(now, c, maxWait); rej != nil {
		t.mu.Unlock()
		return ownHold{}, now, rej
	}
	w := &inLine{waiter: *newWaiter(), cost: c}
	t.line = append(t.line, w)
	t.addAheadLocked(c, 1)
	t.mu.Unlock()
	return g.standInLine(ctx, t, w, now, now.Add(maxWait))
}

// standInLine waits until w is first and fits.
func (g *Governor) standInLine(ctx context.Context, t *tenant, w *inLine, since, deadline time.Time) (ownHold, time.Time, *Rejection) {
	why := woken
	for {
		now := g.clock.Now()
		t.mu.Lock()
		t.advanceLocked(now)
		if _, fits := t.fitsLocked(w.cost); fits && t.line[0] == w && why != gone && why != draining {
			h := t.bookLocked(w.cost)
			t.leaveLocked(w)
			t.mu.Unlock()
			return h, now, nil
		}
		if why == gone || why == draining || !now.Before(deadline) {
			t.leaveLocked(w)
			rej := t.rejectionLocked(now, w.cost)
			t.mu.Unlock()
			rej.Waited = now.Sub(since)
			rej.because(why)
			return ownHold{}, now, rej
		}
		next := t.lookAgainLocked(w, deadline)
		t.mu.Unlock()
		why = g.park(ctx, &w.waiter, next)
	}
}

// because replaces the reason of a refusal when the wait was broken off.
func (r *Rejection) because(why cause) {
	switch why {
	case gone:
		r.Reason = ReasonCancelled
	case draining:
		r.Reason, r.RetryAfter = ReasonDraining, drainRetry
	}
}

// lookAgainLocked is when w should look whether it fits: when it is first, as soon
// as the rolling limits can have room; else when it is woken.
func (t *tenant) lookAgainLocked(w *inLine, deadline time.Time) time.Time {
	if t.line[0] != w {
		return deadline
	}
	at := time.Time{}
	for k, l := range t.ledgers {
		if l == nil || l.Room() >= w.cost[k] {
			continue
		}
		free, known := l.FreeAt(w.cost[k])
		if !known { // a hold stands in the way, whose end wakes the line
			return deadline
		}
		if free.After(at) {
			at = free
		}
	}
	if at.IsZero() || at.After(deadline) { // a slot is lacking, whose end wakes the line
		return deadline
	}
	return at
}

func (t *tenant) firstLocked() *inLine {
	if len(t.line) == 0 {
		return nil
	}
	return t.line[0]
}

// leaveLocked takes w out of the line. Whoever is first then may fit at once.
func (t *tenant) leaveLocked(w *inLine) {
	i := slices.Index(t.line, w)
	t.line = slices.Delete(t.line, i, i+1)
	t.addAheadLocked(w.cost, -1)
	if i == 0 && len(t.line) > 0 {
		t.line[0].wake()
	}
}

func (t *tenant) addAheadLocked(c ownCost, by int64) {
	for k := range c {
		t.ahead[k] += by * c[k]
	}
}
