package governor

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// line is the calls that wait for a quota, the next one first. Those of one tenant
// or team go in order of arrival; where several teams wait for a limit of what they
// belong to, their weights decide: start-time fair queueing, as in the pools (see
// package escrow), but over few and without a tree. The quota's lock guards it.
type line struct {
	calls []*inLine
	cost  ownCost // sum over calls
	// While anybody waits: the tag of the call that was served last, and where each
	// team is.
	virtual int64
	teams   map[*tenant]inTurn
}

// inTurn is at which tag the next call of a team starts, and how many wait.
type inTurn struct {
	next  int64
	calls int
}

// inLine is a call that waits.
type inLine struct {
	waiter
	asked, cost ownCost   // cost is what of asked fits the limits at all
	least       time.Time // how long it may wait in any case
	asks        bool      // it asks whether it may go, and is let in by that alone
	asking      bool      // it does so at the moment
	via         *tenant
	tag, part   int64 // its start, and how far it moves the next of its team
}

func (l *line) first() *inLine {
	if len(l.calls) == 0 {
		return nil
	}
	return l.calls[0]
}

// wakeNext lets the first look again that is not asking already.
func (l *line) wakeNext() {
	for _, w := range l.calls {
		if !w.asking {
			w.wake()
			return
		}
	}
}

// wanting is the cost and the number of those that wait for a part.
func (l *line) wanting() (cost ownCost, calls int64) {
	for _, w := range l.calls {
		if !w.asks {
			cost, calls = cost.plus(w.cost, 1), calls+1
		}
	}
	return cost, calls
}

// tagOf is where a call that came by k would stand.
func (l *line) tagOf(k *link) int64 { return max(l.virtual, l.teams[k.via].next) }

// ahead is the cost of what would go before a call with this tag.
func (l *line) ahead(tag int64) ownCost {
	n := len(l.calls)
	if n == 0 || l.calls[n-1].tag <= tag {
		return l.cost
	}
	var sum ownCost
	for _, w := range l.calls[:l.after(tag)] {
		sum = sum.plus(w.cost, 1)
	}
	return sum
}

// after is the place behind all whose tag is not larger.
func (l *line) after(tag int64) int {
	at, _ := slices.BinarySearchFunc(l.calls, tag, func(w *inLine, tag int64) int {
		if w.tag <= tag {
			return -1
		}
		return 1
	})
	return at
}

// join lets w wait, which takes a part of the limits so large.
func (l *line) join(w *inLine, k *link, part int64) {
	if l.teams == nil {
		l.teams = map[*tenant]inTurn{}
	}
	w.via, w.tag, w.part = k.via, l.tagOf(k), max(1, part/int64(k.weight))
	l.teams[k.via] = inTurn{w.tag + w.part, l.teams[k.via].calls + 1}
	l.calls = slices.Insert(l.calls, l.after(w.tag), w)
	l.cost = l.cost.plus(w.cost, 1)
}

// leave takes w out. Whoever is first then may fit at once.
func (l *line) leave(w *inLine, served bool) {
	i := slices.Index(l.calls, w)
	l.calls = slices.Delete(l.calls, i, i+1)
	l.cost = l.cost.plus(w.cost, -1)
	if len(l.calls) == 0 {
		l.virtual, l.teams = 0, nil
		return
	}
	turn := l.teams[w.via]
	turn.calls--
	if served {
		l.virtual = max(l.virtual, w.tag)
	} else {
		turn.next -= w.part
		l.moveUp(w, i)
	}
	l.teams[w.via] = turn
	l.wakeNext()
}

// moveUp gives the calls behind place at the turns of those before them in their
// team, of which w left without its own: or a team would pay for calls that never go.
func (l *line) moveUp(w *inLine, at int) {
	for _, o := range l.calls[at:] {
		if o.via == w.via {
			o.tag -= w.part
		}
	}
	if byTag := func(a, b *inLine) int { return cmp.Compare(a.tag, b.tag) }; !slices.IsSortedFunc(l.calls, byTag) {
		slices.SortStableFunc(l.calls, byTag)
	}
}

// resize changes what w waits for.
func (l *line) resize(w *inLine, c ownCost) {
	l.cost = l.cost.plus(w.cost, -1).plus(c, 1)
	w.cost = c
}

func (c ownCost) plus(o ownCost, by int64) ownCost {
	for k := range c {
		c[k] += by * o[k]
	}
	return c
}

// whole is all of a limit, as line counts parts of them, at a weight of a thousandth.
const whole = int64(1) << 40

// partLocked is which part of the limits a call takes, of that of which it takes most.
func (q *quota) partLocked(c ownCost) int64 {
	part := int64(1)
	if q.concurrency > 0 {
		part = max(part, whole/q.concurrency)
	}
	for k, l := range q.ledgers {
		if l != nil {
			part = max(part, int64(float64(whole)/float64(q.limits[k])*float64(c[k])))
		}
	}
	return part
}

// link is one quota that holds for a call, and how the call came to it: as one of
// its tenant's own, or through a team of that.
type link struct {
	q      *quota
	via    *tenant
	weight escrow.Weight
	shared bool // calls come to it in other ways too
}

// join holds a call's cost of a quota if it fits. Over a limit it answers with a
// place in the line, in which the call is to stand, or refuses. A shadow is held
// in any case, and the refusal is only told. least is until when it may wait for a part,
// whatever maxWait is.
func (k *link) join(now, least time.Time, c ownCost, maxWait time.Duration, shadow bool) (quotaHold, *inLine, *Rejection) {
	q := k.q
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advanceLocked(now)
	q.inUseLocked()
	asked := c
	c = q.clipLocked(c)
	if _, fits := q.fitsLocked(c); fits && len(q.line.calls) == 0 {
		return q.bookLocked(c), nil, nil
	}
	coming := q.comingLocked(c)
	rej := q.refuseLocked(now, c, k, maxWait, coming)
	q.lackLocked(c)
	switch {
	case shadow:
		return q.bookLocked(c), nil, rej
	case rej != nil:
		return quotaHold{}, nil, rej
	}
	w := &inLine{waiter: *newWaiter(), asked: asked, cost: c}
	if coming {
		w.least = least
	}
	q.line.join(w, k, q.partLocked(c))
	return quotaHold{}, w, nil
}

// standInLine waits until w is first and fits. It returns the time at which its
// hold began.
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
			q.lackLocked(w.cost)
			q.mu.Unlock()
			rej.because(why)
			return quotaHold{}, now, rej
		}
		next := q.lookAgainLocked(w, deadline)
		q.mu.Unlock()
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
