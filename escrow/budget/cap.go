package budget

import "time"

// Cap is one tenant's own budget: at most a limit in every calendar period.
//
// A Cap is not safe for concurrent use.
type Cap struct {
	win   window
	limit int64
	used  int64 // held, or settled
}

// NewCap returns an untouched budget of limit units a period of loc's calendar.
// A limit of 0 admits nothing. A nil loc is UTC.
func NewCap(limit int64, p Period, loc *time.Location) *Cap {
	return &Cap{win: window{period: p, loc: loc}, limit: clampLimit(limit)}
}

// Hold sets c aside for a call if the period has room for it.
func (b *Cap) Hold(now time.Time, c int64) (Hold, Answer) {
	b.advance(now)
	c = max(0, c)
	left := max(0, b.limit-b.used)
	ans := Answer{Ceiling: b.limit, Remaining: left}
	if c > left {
		if c <= b.limit {
			ans.RetryAt = b.win.end
		}
		return Hold{}, ans
	}
	b.used += c
	ans.OK = true
	ans.Remaining = left - c
	return b.win.hold(c, MemberID{}), ans
}

// Settle ends a call that took actual. Within the period of its admission the
// books are corrected, up or down. After that its hold has been counted,
// and stays so; only its cost beyond the hold counts in the present period.
// A call that took nothing (actual 0) gives its hold back.
func (b *Cap) Settle(now time.Time, h Hold, actual int64) {
	b.advance(now)
	b.used += min(b.win.due(h, actual), maxUsed-b.used)
}

// Used is the amount that counts in the current period: settled, and held by calls in
// flight.
func (b *Cap) Used(now time.Time) int64 {
	b.advance(now)
	return b.used
}

// Counted is Used as of the last look.
func (b *Cap) Counted() int64 { return b.used }

// Limit is the most that may be used in a period.
func (b *Cap) Limit() int64 { return b.limit }

// SetLimit changes the limit, from the current period on.
func (b *Cap) SetLimit(limit int64) { b.limit = clampLimit(limit) }

// ResetAt is when the next period begins.
func (b *Cap) ResetAt(now time.Time) time.Time {
	b.advance(now)
	return b.win.end
}

func (b *Cap) advance(now time.Time) {
	if b.win.advance(now) {
		b.used = 0
	}
}
