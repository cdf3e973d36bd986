package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// refuseLocked decides whether a call that does not fit may stand in line.
func (t *tenant) refuseLocked(now time.Time, c ownCost, maxWait time.Duration) *Rejection {
	rej := t.rejectionLocked(now, c)
	if len(t.line) >= t.bound {
		rej.Reason, rej.Used = ReasonQueueFull, int64(len(t.line))
		return rej
	}
	// How long running calls will take is only a guess, so it refuses nobody who
	// is ready to wait.
	if maxWait <= 0 || t.rollingLocked(now, c) > maxWait {
		return rej
	}
	return nil
}

// rejectionLocked explains why c does not go now, and when it would.
func (t *tenant) rejectionLocked(now time.Time, c ownCost) *Rejection {
	axis := t.lackingLocked(c)
	rej := &Rejection{Own: true, Tenant: t.cfg.Name, RetryAfter: max(time.Millisecond, t.rollingLocked(now, c))}
	if axis == ownAxes {
		rej.RetryAfter = max(rej.RetryAfter, t.slotWaitLocked())
		rej.Reason, rej.Axis = ReasonConcurrency, axisConcurrency
		rej.Limit, rej.Used, rej.Asked = t.cfg.Concurrency, t.running, 1
		return rej
	}
	rej.Reason = ReasonTokens
	if axis == ownRequests {
		rej.Reason = ReasonRequests
	}
	l := t.ledgers[axis]
	rej.Axis, rej.Limit, rej.Used, rej.Asked = ownAxisName[axis], l.Limit(), l.Used(), c[axis]
	return rej
}

// rollingLocked is when the rolling limits will have room for c behind the line,
// if nobody else comes: when bookings leave, or when running calls are expected to
// give back what they do not take, if that comes sooner.
func (t *tenant) rollingLocked(now time.Time, c ownCost) time.Duration {
	wait := time.Duration(0)
	for k, l := range t.ledgers {
		if l == nil {
			continue
		}
		axis := t.behindLocked(now, l, t.ahead[k]+c[k])
		if due := t.due[k]; due > 0 && axis > t.meanRun {
			axis = min(axis, max(t.meanRun, t.behindLocked(now, l, t.ahead[k]+c[k]-due)))
		}
		wait = max(wait, axis)
	}
	return wait
}

// behindLocked is when the last of total fits a ledger.
func (t *tenant) behindLocked(now time.Time, l *escrow.Ledger, total int64) time.Duration {
	if total <= 0 {
		return 0
	}
	full := (total - 1) / l.Limit() // whole minutes that go before
	at, known := l.FreeAt(total - full*l.Limit())
	if !known {
		at = now.Add(escrow.Window)
	}
	return max(0, time.Duration(full)*escrow.Window+at.Sub(now))
}

// slotWaitLocked guesses when a slot frees, by how long calls ran so far.
func (t *tenant) slotWaitLocked() time.Duration {
	if t.cfg.Concurrency == 0 {
		return 0
	}
	mean := t.meanRun
	if mean <= 0 {
		mean = time.Second
	}
	return time.Duration(len(t.line)+1) * mean / time.Duration(t.cfg.Concurrency)
}
