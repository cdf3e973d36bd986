package governor

import (
	"context"
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// partAxes counts the axes of own limits that are divided into parts: the rolling ones, and calls
// at once.
const partAxes = ownAxes + 1

// common is what a quota knows of its parts, where its limits are kept together with other
// processes. An array is indexed by axis; index ownAxes is calls at once. The quota's lock guards
// it.
type common struct {
	all    *commons
	handle SharedLimits // the quota's side towards whoever speaks for it

	inUse  bool            // somebody speaks for the quota
	lacks  bool            // since the last claims a call found too small a part, or one is expected to
	alone  bool            // nobody answers: the process counts by itself, against the whole limits
	until  time.Time       // when the parts expire; zero when they have
	parts  [partAxes]int64 // what this process may use of each limit
	others [partAxes]int64 // what counts against each limit in other processes
	// leaving is when what others used of the rolling limits leaves the minute.
	leaving [ownAxes]leaving
	last    [partAxes]int64   // what the last call took, or could not get
	taken   [partAxes]int64   // by all calls so far
	told    [partAxes]int64   // taken, as of the last claims
	at      time.Time         // when the last claims were made
	rate    [partAxes]float64 // a second, smoothed
	heard   chan struct{}     // closed when an answer comes, or none will; nil if nobody waits for one

	calledBy
	// known is how much the store believes is used here, and let counts the calls that the store
	// let in: in all, and as of the last claims.
	known        [partAxes]int64
	let, toldLet int64
	// noRoom remembers which limits had no room, lacked is the axis for which the last call was
	// refused, and refuses says that calls were refused from that memory since the last claims.
	noRoom  [partAxes]noRoom
	lacked  int
	refuses bool
}

// calledBy says which kinds of calls a limit applies to: calls that ask the store before they go,
// and calls that go within a leased part. It may be both.
type calledBy struct{ asking, leased bool }

// partWait is how long a call may wait for a part that no other process has, even if its tenant's
// MaxWait is shorter: about a round trip to the store.
const partWait = 250 * time.Millisecond

// partRetry is when to retry a call for which other processes may have to give something back
// first.
const partRetry = time.Second

// announceLocked lists the quota so that somebody asks the store for its parts, unless somebody
// does already or it limits nothing.
func (q *quota) announceLocked() {
	if q.common != nil && !q.common.inUse && q.limitedLocked() {
		q.common.inUse = true
		q.common.all.list(q)
	}
}

// Refresh asks the store what other processes use of a tenant's own limits, and of those above it,
// where this process does not ask anyway because no calls come here. It waits for the answers, but
// at most for partWait (250 ms) or until ctx ends.
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

// answered is a closed channel.
var answered = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// ask makes sure that the store is asked for the quota's parts. It returns a channel that is closed
// when the answer is in force: at once if one is already, or if there is nobody to ask.
func (q *quota) ask() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.common
	if c == nil || c.inUse || !q.limitedLocked() {
		return answered
	}
	q.announceLocked()
	if c.heard == nil {
		c.heard = make(chan struct{})
	}
	return c.heard
}

// limitedLocked reports whether the quota has any limit.
func (q *quota) limitedLocked() bool {
	return q.concurrency > 0 || len(q.caps) > 0 || slices.ContainsFunc(q.ledgers[:], func(l *escrow.Ledger) bool { return l != nil })
}

// hearLocked releases those who wait for an answer from the store.
func (q *quota) hearLocked() {
	if c := q.common; c.heard != nil {
		close(c.heard)
		c.heard = nil
	}
}

// askForMoreLocked notes that the part is too small for a call of cost c, and lists the quota so
// that the store is asked for more at once.
func (q *quota) askForMoreLocked(c ownCost) {
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

// askAhead asks the store for a part for a call that first has to wait elsewhere, so that the part
// is here when the call's turn comes.
func (q *quota) askAhead(now time.Time, c ownCost) {
	if q.common == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advanceLocked(now)
	c = q.clipLocked(c)
	if _, fits := q.fitsLocked(c); !fits {
		q.askForMoreLocked(c)
	}
}

// expireLocked gives up parts that have expired, and parts of budget periods that are over.
func (q *quota) expireLocked(now time.Time) {
	for _, a := range q.caps {
		a.advance(now)
	}
	if c := q.common; !c.alone && !c.until.IsZero() && !now.Before(c.until) {
		q.dropPartsLocked()
	}
}

// dropPartsLocked leaves this process without any part. What others use of the limits is unknown
// from then on; of a budget the last known figure is still shown.
func (q *quota) dropPartsLocked() {
	c := q.common
	c.until = time.Time{}
	c.parts = [partAxes]int64{}
	c.others = [partAxes]int64{}
	for _, a := range q.caps {
		a.part = 0
	}
	q.limitLocked()
}

// limitLocked puts in force what this process may use of each limit.
func (q *quota) limitLocked() {
	q.slots = q.usableLocked(ownAxes, q.concurrency)
	for k, l := range q.ledgers {
		limit := q.usableLocked(k, q.limits[k])
		if l != nil {
			l.SetLimit(limit)
		}
	}
	for _, a := range q.caps {
		a.limitCap()
	}
}

// usableLocked is how much of a limit this process may use: its part, or all of it when nobody
// shares it or nobody answers. Where there is no limit the part is set to 0, which the next claims
// tell the store.
func (q *quota) usableLocked(axis int, limit int64) int64 {
	c := q.common
	if c == nil || c.alone {
		return limit
	}
	if limit == 0 {
		c.parts[axis] = 0
		c.others[axis] = 0
	}
	return min(limit, c.parts[axis])
}

// elsewhereLocked is what counts against a limit in other processes, as far as known.
func (q *quota) elsewhereLocked(axis int) int64 {
	if q.common == nil || q.common.alone {
		return 0
	}
	return q.common.others[axis]
}

// usedLocked is what counts against a limit in all processes.
func (q *quota) usedLocked(axis int) int64 {
	if axis == ownAxes {
		return q.running + q.elsewhereLocked(axis)
	}
	return q.ledgers[axis].Used() + q.elsewhereLocked(axis)
}

// partFreeLocked reports whether a call lacks nothing but a part that no process has: within the
// limits themselves there is room for it and for all who wait in line.
func (q *quota) partFreeLocked(cost ownCost) bool {
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

// noteBookedLocked notes what a call took, so that claims can ask ahead for the next ones.
func (q *quota) noteBookedLocked(cost ownCost) {
	c := q.common
	if c == nil {
		return
	}
	for k, n := range cost {
		c.last[k], c.taken[k] = n, c.taken[k]+n
	}
	c.last[ownAxes], c.taken[ownAxes] = 1, c.taken[ownAxes]+1
}
