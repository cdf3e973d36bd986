package governor

import (
	"context"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// What happens to a call at a quota: it is held, waits in line, or is refused.

// link is one quota that holds for a call, and how the call comes to it: as its tenant's own, or
// through one of the tenant's teams.
type link struct {
	q      *quota
	via    *tenant
	weight escrow.Weight
	shared bool // calls come to q in other ways as well
}

// join holds a call's cost of a quota if it fits. If not, it returns a place in the line, in which
// the call is to wait, or a refusal. A shadow is always held, and the refusal only returned. For a
// part that no other process has the call may wait until may.least, whatever its MaxWait is.
func (k *link) join(now time.Time, c ownCost, may waits, shadow bool) (quotaHold, *inLine, *Rejection) {
	q := k.q
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advanceLocked(now)
	q.announceLocked()
	asked := c
	c = q.clipLocked(c)
	if _, fits := q.fitsLocked(c); fits && len(q.line.calls) == 0 {
		return q.bookLocked(c), nil, nil
	}
	coming := q.partFreeLocked(c)
	rej := q.refuseLocked(now, c, k, may.until.Sub(now), coming)
	q.askForMoreLocked(c)
	switch {
	case shadow:
		return q.bookLocked(c), nil, rej
	case rej != nil:
		return quotaHold{}, nil, rej
	}
	w := &inLine{waiter: *newWaiter(), asked: asked, cost: c}
	if coming {
		w.least = may.least
	}
	q.line.join(w, k, q.partLocked(c))
	return quotaHold{}, w, nil
}

// standInLine waits until w is first in line and fits. It returns the time from which its cost is
// held.
func (g *Governor) standInLine(ctx context.Context, q *quota, w *inLine, deadline time.Time) (quotaHold, time.Time, *Rejection) {
	why := woken
	deadline = later(deadline, w.least)
	for {
		now := g.clock.Now()
		q.mu.Lock()
		q.advanceLocked(now)
		if _, fits := q.fitsLocked(w.cost); fits && q.line.first() == w && why != gone && why != draining {
			h := q.bookLocked(w.cost)
			q.line.leave(w, true)
			q.mu.Unlock()
			return h, now, nil
		}
		if why == gone || why == draining || !now.Before(deadline) {
			q.line.leave(w, false)
			rej := q.rejectionLocked(now, w.cost, w.tag)
			q.askForMoreLocked(w.cost)
			q.mu.Unlock()
			rej.because(why)
			return quotaHold{}, now, rej
		}
		next := q.lookAgainLocked(w, deadline)
		q.mu.Unlock()
		why = g.park(ctx, &w.waiter, next)
	}
}

// lookAgainLocked is when w should look again whether it fits: if it is first, as soon as the
// rolling limits can have room; otherwise it is woken.
func (q *quota) lookAgainLocked(w *inLine, deadline time.Time) time.Time {
	if q.line.first() != w {
		return deadline
	}
	at := time.Time{}
	for k, l := range q.ledgers {
		if l == nil || l.Room() >= w.cost[k] {
			continue
		}
		free, known := l.FreeAt(w.cost[k])
		if !known { // a hold is in the way; its end wakes the line
			return deadline
		}
		if free.After(at) {
			at = free
		}
	}
	if at.IsZero() || at.After(deadline) { // a slot is lacking; the end of a call wakes the line
		return deadline
	}
	return at
}
