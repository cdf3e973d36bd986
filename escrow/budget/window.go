package budget

import "time"

const (
	// MaxLimit bounds every limit, and the amount of one call. It is ten
	// trillion tokens, or ten million dollars, a period; with it no product in
	// this package passes 128 bits.
	MaxLimit = int64(1e13)

	// USD is one dollar in micro-dollars, the unit of budgets of money.
	USD = int64(1e6)

	// maxUsed is where books stop: calls that take far more than they hold must
	// not overflow them.
	maxUsed = int64(1) << 60
)

// Hold is the amount that one call has set aside in a budget. It is a value, and the
// budget keeps no list of them: settle it exactly once.
type Hold struct {
	amount int64
	period int64 // start of the period it counts in, Unix seconds
	member MemberID
}

// Amount is the held amount.
func (h Hold) Amount() int64 { return h.amount }

// Answer is a budget's word on one call.
type Answer struct {
	OK bool
	// Ceiling is what the asker could have used at most in this period as of
	// now, this call included. Of a Cap it is the limit.
	Ceiling int64
	// Remaining is the amount left to the asker below Ceiling after this call.
	Remaining int64
	// RetryAt is the earliest time at which a refused call would be admitted if
	// nobody else spent or settled anything, and the end of the period at the
	// latest. It is zero for a call that was admitted, and for one that is
	// larger than the whole limit: no wait helps it.
	RetryAt time.Time
}

// window is the current period of a budget. Time only moves forward: a clock
// that steps back stands still until it is where it was, so that a period that
// has ended is never opened again.
type window struct {
	period     Period
	loc        *time.Location
	now        time.Time
	start, end time.Time // zero before the first word
}

// advance moves to now. It reports whether another period began.
func (w *window) advance(now time.Time) bool {
	now = now.Round(0) // the calendar is about the clock on the wall
	if now.Before(w.now) {
		return false
	}
	w.now = now
	if now.Before(w.end) {
		return false
	}
	w.start, w.end = w.period.Bounds(now, w.loc)
	return true
}

// hold is the hold of c in the current period.
func (w *window) hold(c int64, m MemberID) Hold {
	return Hold{amount: c, period: w.start.Unix(), member: m}
}

// due is the change to the current period when a call that took actual ends.
// A hold counts in the period in which it was made. If that is over, what the
// call took within its hold has been counted there; its cost beyond that
// counts now, for it is now that it is known.
func (w *window) due(h Hold, actual int64) int64 {
	d := min(max(0, actual), MaxLimit) - h.amount
	if h.period != w.start.Unix() {
		return max(0, d)
	}
	return d
}

// continues reports whether books that began at start are those of the current
// period.
func (w *window) continues(start time.Time) bool {
	return !start.Before(w.start) && start.Before(w.end)
}

// clampLimit reads a limit below zero as zero.
func clampLimit(limit int64) int64 { return min(max(0, limit), MaxLimit) }
