package governor

import (
	"strconv"
	"time"

	"github.com/llmgov/llmgov/federation/parts"
)

// isCommon reports whether other processes count against the budget, too.
func (a *account) isCommon() bool { return a.of != nil && a.of.common != nil && !a.of.common.alone }

// limitCap puts in force what the process may have.
func (a *account) limitCap() {
	limit := a.limit()
	switch {
	case a.isCommon():
		limit = min(limit, a.part)
	case a.of.common != nil: // what others used of a period stays used
		limit = max(0, limit-a.others)
	}
	a.cap.SetLimit(limit)
}

// short reports whether the process has less of a budget that is not spent than others leave.
func (a *account) short() bool {
	if a.split != nil {
		return a.lent != nil && a.lent.short
	}
	left := a.limit() - a.elsewhere()
	return a.isCommon() && a.cap.Counted() < left && a.part < left
}

// wantsPart reports whether calls like the last one should wait for a part.
func (a *account) wantsPart() bool { return a.short() && a.part < a.cap.Counted()+max(1, a.last) }

// elsewhere is what counts in other processes, as far as that is known now.
func (a *account) elsewhere() int64 {
	if !a.isCommon() || a.of.common.until.IsZero() {
		return 0
	}
	return a.others
}

// usedByAll is what counts here and elsewhere.
func (a *account) usedByAll(now time.Time) int64 {
	if a.split != nil {
		return a.used(now)
	}
	return a.used(now) + a.others
}

// inFlight is what calls in flight hold, here and elsewhere.
func (a *account) inFlight() int64 {
	if a.lent == nil && !a.isCommon() {
		return a.pending
	}
	return a.pending + a.othersPending
}

// lacksPart explains why a call has to wait for which the process has too small a part.
func (a *account) lacksPart(now time.Time, c int64) *Rejection {
	return &Rejection{
		Reason: unitReasons[a.Unit], Budget: a.Budget, Resets: a.ends, RetryAfter: partRetry, Elsewhere: true,
		Limit: a.Limit, Used: a.usedByAll(now) * a.scale, Asked: c * a.scale,
	}
}

// ifAsked is a copy to try a call on, which has what others do not use.
func (a *account) ifAsked() *account {
	c := a.clone()
	if c.split != nil { // which has what is left
		c.lent = nil
	}
	if c.isCommon() {
		c.part = c.limit() - c.elsewhere()
		c.limitCap()
	}
	return c
}

// claim is a budget's, of which so many calls are expected, if ahead says so; lacks says that one waits, or was
// refused. If the process dies, its part is lost until the period ends, so it is small.
func (a *account) claim(now time.Time, ahead, lacks bool, calls float64) parts.Claim {
	a.advance(now)
	used, need := a.used(now), int64(0)
	want := used
	a.known = used
	if ahead {
		want += max(a.last, int64(calls*float64(a.last)), (a.limit()-used-a.others)/capShare)
	}
	if lacks && a.wantsPart() {
		need = used + max(1, a.last)
	}
	want = min(a.limit(), max(want, need))
	return parts.Claim{
		Name: a.periodName(), Kind: parts.Period, Limit: a.Limit, Ends: a.ends.UnixMilli(),
		Used: used * a.scale, Held: min(used, a.pending) * a.scale, Want: want * a.scale, Need: need * a.scale,
	}
}

// take takes in what a claim was answered, in the books' units.
func (a *account) take(p parts.Part) {
	a.part, a.others, a.othersPending = p.Part/a.scale, a.units(p.Others), a.units(p.Held)
}

// periodName names a budget's present period to other processes, which may count it in
// other units.
func (a *account) periodName() string { return a.Name() + " " + strconv.FormatInt(a.ends.Unix(), 10) }

// capShare is the part of what is left of a budget that a process asks for in any case, as
// a divisor.
const capShare = 256
