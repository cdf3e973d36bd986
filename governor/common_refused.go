package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
)

// outcome is what became of the call.
func (c *SharedCall) outcome() consulted {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// refusal explains why the store did not let the call in: the link that lacks room, the refusal,
// and how long until there is room; 0 if that is unknown.
func (c *SharedCall) refusal(now time.Time) (*link, *Rejection, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := &c.tab.chain[0]
	t := take{axis: ownRequests}
	if c.verdict.Lacks < len(c.takes) {
		t = c.takes[c.verdict.Lacks]
		k = t.link
	}
	wait := time.Duration(c.verdict.Wait) * time.Millisecond
	q := k.q
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advanceLocked(now)
	if t.budget != nil {
		a := t.budget
		rej := a.refusal(now, c.spend, q.meanRun)
		a.noRoom.remember(now, a.units(c.spend[a.Unit]), rej.RetryAfter)
		return k, rej, rej.RetryAfter
	}
	cost := q.clipLocked(c.tab.cost)
	if t.axis == ownAxes {
		wait = max(q.slotWaitLocked(), time.Millisecond)
	}
	q.common.lacked = t.axis
	q.common.noRoom[t.axis].remember(now, cost.amountOf(t.axis), wait)
	return k, q.rejectLimitLocked(t.axis, cost, max(wait, askAgain)), wait
}

// refusal explains why a budget has no room for a call, by what all processes use: it is spent, or
// held by calls in flight, or other processes hold parts of it that they do not use.
func (a *account) refusal(now time.Time, s Spend, meanRun time.Duration) *Rejection {
	c := min(a.units(s[a.Unit]), a.limit())
	used := a.usedByAll(now)
	inFlight := a.inFlight()
	if used-inFlight >= a.limit() || used+c > a.limit() && inFlight > 0 {
		return a.ifAsked().rejection(now, nobody(0), s, budget.Answer{}, meanRun)
	}
	return a.rejectElsewhere(now, c)
}

// overAxisLocked returns the first axis whose limit has no room for so many calls of cost sum, by
// what is known here of all processes, or -1.
func (q *quota) overAxisLocked(sum ownCost, calls int64) int {
	for k, amount := range sum {
		if q.overOnLocked(k, amount) {
			return k
		}
	}
	if q.overOnLocked(ownAxes, calls) {
		return ownAxes
	}
	return -1
}

// inTheWayLocked returns the axis to blame for such calls having to wait: one that is full by what
// is known here, else the one that the last refused call lacked, else any that has a limit.
func (q *quota) inTheWayLocked(sum ownCost, calls int64) int {
	if axis := q.overAxisLocked(sum, calls); axis >= 0 {
		return axis
	}
	if q.limitsLocked(q.common.lacked) {
		return q.common.lacked
	}
	axis := 0
	for axis < ownAxes && !q.limitsLocked(axis) {
		axis++
	}
	return axis
}

// limitsLocked reports whether there is a limit on an axis.
func (q *quota) limitsLocked(axis int) bool {
	if axis == ownAxes {
		return q.concurrency > 0
	}
	return q.ledgers[axis] != nil
}

// waitLocked is how long it takes until a limit has room for a call, by what is known here.
func (q *quota) waitLocked(now time.Time, axis int, c ownCost) time.Duration {
	if axis == ownAxes {
		return q.slotWaitLocked()
	}
	if q.ledgers[axis] == nil {
		return 0
	}
	return q.waitForRoomLocked(now, axis, c[axis])
}

// noRoom remembers that a limit had no room for an amount, and until when that is expected to last.
type noRoom struct {
	amount int64
	until  time.Time
}

// remember notes that there was no room for an amount, unless a smaller one is already known not to
// fit.
func (n *noRoom) remember(now time.Time, amount int64, wait time.Duration) {
	if !now.Before(n.until) || amount <= n.amount {
		*n = noRoom{amount, now.Add(wait)}
	}
}

// amountOf is what a call takes on an axis; one slot on the axis of calls at once.
func (c ownCost) amountOf(axis int) int64 {
	if axis == ownAxes {
		return 1
	}
	return c[axis]
}

// remembersLocked returns the refusal of a call that need not ask: a limit had no room, was
// expected to have none until later, and by what was heard since still has none. That knowledge is
// seconds old at most, since somebody speaks for the limits as long as calls are refused.
func (q *quota) remembersLocked(now time.Time, c ownCost, s Spend) (*Rejection, time.Duration) {
	if !now.Before(q.common.until) {
		return nil, 0
	}
	for k := range q.common.noRoom {
		n := &q.common.noRoom[k]
		if !now.Before(n.until) || c.amountOf(k) < n.amount || !q.overOnLocked(k, c.amountOf(k)) {
			continue
		}
		q.common.refuses = true
		wait := n.until.Sub(now)
		return q.rejectLimitLocked(k, c, max(wait, askAgain)), wait
	}
	for _, a := range q.caps {
		amount := a.units(s[a.Unit])
		if a.advance(now); !now.Before(a.noRoom.until) || amount < a.noRoom.amount || a.usedByAll(now)+amount <= a.limit() {
			continue
		}
		q.common.refuses = true
		rej := a.refusal(now, s, q.meanRun)
		return rej, rej.RetryAfter
	}
	return nil, 0
}

// overOnLocked reports whether an axis has a limit with no room for an amount, by what is known
// here of all processes.
func (q *quota) overOnLocked(axis int, amount int64) bool {
	if axis == ownAxes {
		return q.limitsLocked(axis) && q.usedLocked(axis)+amount > q.concurrency
	}
	return q.limitsLocked(axis) && q.usedLocked(axis)+amount > q.limits[axis]
}
