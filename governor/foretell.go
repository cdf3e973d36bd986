package governor

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// refuseLocked decides whether a call that does not fit may wait in line; nil says that it may.
// Where several teams share a line, each may have at most as many calls in it as there are places
// left free, as in the pools, so that none can shut the others out. coming says that the call lacks
// only a part, which nobody else has.
func (q *quota) refuseLocked(now time.Time, c ownCost, k *link, maxWait time.Duration, coming bool) *Rejection {
	tag := q.line.tagOf(k)
	rej := q.rejectionLocked(now, c, tag)
	if full := q.rejectLineLocked(k, rej); full != nil {
		return full
	}
	// How long running calls will take is only a guess, so that refuses no call that
	// is ready to wait.
	if coming {
		return nil
	}
	if maxWait <= 0 || q.rollingLocked(now, c, tag) > maxWait {
		return rej
	}
	return nil
}

// rejectionLocked explains why c does not go now, and when it would, behind all that have its tag
// or a lower one. Of several limits it names the one that takes longest, because the time is that
// limit's.
func (q *quota) rejectionLocked(now time.Time, c ownCost, tag int64) *Rejection {
	axis := q.lackingLocked(c)
	slowest, wait := q.slowestLocked(now, c, tag)
	slots := q.slotWaitLocked()
	if q.slots == 0 { // there is no call whose end would make room
		slots = max(slots, partRetry)
	}
	switch {
	case axis == capAxis:
		a := q.caps[slices.IndexFunc(q.caps, (*account).wantsPart)]
		return a.rejectElsewhere(now, max(1, a.last))
	case axis == ownAxes && wait <= slots:
		wait = slots
	case wait > 0:
		axis = slowest
	}
	return q.rejectLimitLocked(axis, c, max(time.Millisecond, wait))
}

// rollingLocked is how long it takes until the rolling limits have room for c behind the line, if
// nobody else comes.
func (q *quota) rollingLocked(now time.Time, c ownCost, tag int64) time.Duration {
	_, wait := q.slowestLocked(now, c, tag)
	return wait
}

// slowestLocked is the rolling limit that takes longest until it has room for c behind the line,
// and how long that is: until bookings leave the minute, or until running calls are expected to
// give back what they do not take, if that is sooner.
func (q *quota) slowestLocked(now time.Time, c ownCost, tag int64) (slowest int, wait time.Duration) {
	total := q.line.ahead(tag).plus(c, 1)
	for k, l := range q.ledgers {
		if l == nil {
			continue
		}
		axis := q.waitForRoomLocked(now, k, total[k])
		if due := q.due[k]; due > 0 && axis > q.meanRun {
			axis = min(axis, max(q.meanRun, q.waitForRoomLocked(now, k, total[k]-due)))
		}
		if axis > wait {
			slowest = k
			wait = axis
		}
	}
	return slowest, wait
}

// waitForRoomLocked is how long it takes until a rolling limit has room for total, which may be
// several calls and more than the limit.
func (q *quota) waitForRoomLocked(now time.Time, axis int, total int64) time.Duration {
	l := q.ledgers[axis]
	limit := q.limits[axis]
	switch {
	case total <= 0 || l.Room() >= total:
		return 0
	case l.Limit() < limit: // other processes use it, too
		return q.waitInCommonLocked(now, axis, total)
	}
	full := (total - 1) / limit // whole minutes before that
	at, known := l.FreeAt(total - full*limit)
	if !known {
		at = now.Add(escrow.Window)
	}
	return max(0, time.Duration(full)*escrow.Window+at.Sub(now))
}

// slotWaitLocked guesses how long it takes until a slot is free, from how long calls have run so
// far.
func (q *quota) slotWaitLocked() time.Duration {
	if q.concurrency == 0 {
		return 0
	}
	mean := q.meanRun
	if mean <= 0 {
		mean = time.Second
	}
	return time.Duration(len(q.line.calls)+1) * mean / time.Duration(q.concurrency)
}
