package governor

import (
	"context"
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// partAxes are the axes of own limits: the rolling ones, and calls at once.
const partAxes = ownAxes + 1

// common is what a quota knows of its part. The quota's lock guards it.
type common struct {
	all    *commons
	handle SharedLimits // for who speaks for it

	inUse  bool
	lacks  bool            // a call waits, was refused, or will come, for which there is no part
	alone  bool            // nobody answers: the process counts by itself
	until  time.Time       // when the parts expire
	parts  [partAxes]int64 // what the process may have
	others [partAxes]int64 // what counts in other processes
	// leaving is when what others used of rolling limits leaves the minute.
	leaving [ownAxes]leaving
	last    [partAxes]int64   // what the last call took, or lacked
	taken   [partAxes]int64   // in all
	told    [partAxes]int64   // of that, as of the last claims
	at      time.Time         // of these
	rate    [partAxes]float64 // a second, of late
	heard   chan struct{}     // closed when there is an answer, or none will come; nil if nobody waits for that

	calledBy
	// known is what is known elsewhere as used here, and let how many calls have been let in,
	// in all and as of the last claims.
	known        [partAxes]int64
	let, toldLet int64
	// noRoom is which limits had none, lacked the one that the last call was refused by, and
	// refuses that calls were refused by what is known of that since the last claims.
	noRoom  [partAxes]noRoom
	lacked  int
	refuses bool
}

// calledBy is which calls come to a limit: such as ask whether they may go, such as find a part,
// or both.
type calledBy struct{ asking, leased bool }

// partWait is how long a call may wait for a part that nobody else has, whatever its
// tenant's max_wait: a round trip to whoever shares the limits out.
const partWait = 250 * time.Millisecond

// partRetry is when to come back to a part that others may have to give back first.
const partRetry = time.Second

// inUseLocked sees to it that somebody asks for the quota's parts, if it limits anything.
func (q *quota) inUseLocked() {
	if q.common != nil && !q.common.inUse && q.limitedLocked() {
		q.common.inUse = true
		q.common.all.list(q)
	}
}

// Refresh asks what counts elsewhere of a tenant's own limits, and of those above it, where
// nobody speaks for them because no calls come here. It waits for the answer as long as a
// call may wait for a part.
func (g *Governor) Refresh(ctx context.Context, tenant string) {
	ctx, cancel := context.WithTimeout(ctx, partWait)
	defer cancel()
	v := g.table.Load().tenants[tenant]
	if v == nil {
		return
	}
	var heard []<-chan struct{}
	for i := range v.access {
		for _, k := range v.access[i].chain {
			heard = append(heard, k.q.ask())
		}
	}
	for _, c := range heard {
		select {
		case <-c:
		case <-ctx.Done():
		}
	}
}

// answered is closed.
var answered = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// ask sees to it that somebody asks for the quota's parts, and returns what is closed when
// there is an answer: at once where one is in force, or there is nobody to ask.
func (q *quota) ask() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.common
	if c == nil || c.inUse || !q.limitedLocked() {
		return answered
	}
	q.inUseLocked()
	if c.heard == nil {
		c.heard = make(chan struct{})
	}
	return c.heard
}

// limitedLocked reports whether there is any limit.
func (q *quota) limitedLocked() bool {
	return q.concurrency > 0 || len(q.caps) > 0 || slices.ContainsFunc(q.ledgers[:], func(l *escrow.Ledger) bool { return l != nil })
}

// hearLocked tells those who wait for an answer that they need wait no longer.
func (q *quota) hearLocked() {
	if c := q.common; c.heard != nil {
		close(c.heard)
		c.heard = nil
	}
}

// lackLocked says that a part is too small for a call.
func (q *quota) lackLocked(c ownCost) {
	if q.common == nil {
		return
	}
	for k, n := range c {
		q.common.last[k] = max(q.common.last[k], n)
	}
	q.common.last[ownAxes] = 1
	if !q.common.lacks {
		q.common.lacks = true
		q.common.all.list(q)
	}
}

// expect asks for a part, if there is none, for a call that waits elsewhere first.
func (q *quota) expect(now time.Time, c ownCost) {
	if q.common == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advanceLocked(now)
	c = q.clipLocked(c)
	if _, fits := q.fitsLocked(c); !fits {
		q.lackLocked(c)
	}
}

// expireLocked lets go of parts that have expired, or are of a period that is over.
func (q *quota) expireLocked(now time.Time) {
	for _, a := range q.caps {
		a.advance(now)
	}
	if c := q.common; !c.alone && !c.until.IsZero() && !now.Before(c.until) {
		q.dropPartsLocked()
	}
}

// dropPartsLocked leaves nothing to be handed out. What others use is not known from then on;
// of a budget the last that was heard is shown.
func (q *quota) dropPartsLocked() {
	c := q.common
	c.until, c.parts, c.others = time.Time{}, [partAxes]int64{}, [partAxes]int64{}
	for _, a := range q.caps {
		a.part = 0
	}
	q.limitLocked()
}

// limitLocked puts in force what the process may have of the limits.
func (q *quota) limitLocked() {
	q.slots = q.mayHaveLocked(ownAxes, q.concurrency)
	for k, l := range q.ledgers {
		limit := q.mayHaveLocked(k, q.limits[k])
		if l != nil {
			l.SetLimit(limit)
		}
	}
	for _, a := range q.caps {
		a.limitCap()
	}
}

// mayHaveLocked is what the process may have of a limit. Of one that is not there it has no
// part: the store is told so, and gives it to others.
func (q *quota) mayHaveLocked(axis int, limit int64) int64 {
	c := q.common
	if c == nil || c.alone {
		return limit
	}
	if limit == 0 {
		c.parts[axis], c.others[axis] = 0, 0
	}
	return min(limit, c.parts[axis])
}

// elsewhereLocked is what of a limit counts in other processes.
func (q *quota) elsewhereLocked(axis int) int64 {
	if q.common == nil || q.common.alone {
		return 0
	}
	return q.common.others[axis]
}

// usedLocked is what counts of a limit, here and elsewhere.
func (q *quota) usedLocked(axis int) int64 {
	if axis == ownAxes {
		return q.running + q.elsewhereLocked(axis)
	}
	return q.ledgers[axis].Used() + q.elsewhereLocked(axis)
}

// comingLocked reports whether a call lacks nothing but a part, which nobody has: there is
// room for it, and for all who wait, in the limits.
func (q *quota) comingLocked(cost ownCost) bool {
	if q.common == nil || q.common.alone {
		return false
	}
	for k, l := range q.ledgers {
		if l != nil && q.usedLocked(k)+q.line.cost[k]+cost[k] > q.limits[k] {
			return false
		}
	}
	return q.concurrency == 0 || q.usedLocked(ownAxes)+int64(len(q.line.calls)) < q.concurrency
}

// tookLocked takes in that a call was booked, for what may come next.
func (q *quota) tookLocked(cost ownCost) {
	c := q.common
	if c == nil {
		return
	}
	for k, n := range cost {
		c.last[k], c.taken[k] = n, c.taken[k]+n
	}
	c.last[ownAxes], c.taken[ownAxes] = 1, c.taken[ownAxes]+1
}
