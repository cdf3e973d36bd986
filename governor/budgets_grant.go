package governor

import "time"

// isCommon reports whether calls in other processes count against the budget, too.
func (a *account) isCommon() bool { return a.of != nil && a.of.set.Shared() }

// limitCap puts in force how much of a tenant's budget this process may use. When nobody answers,
// what others are known to have used of the period stays used.
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

// short reports whether this process lacks a part although the budget has room: more than its part
// is neither used nor known to be others'.
func (a *account) short() bool {
	if a.split != nil {
		return a.grants != nil && a.grants.short
	}
	left := a.limit() - a.elsewhere()
	return a.isCommon() && a.cap.Counted() < left && a.part < left
}

// wantsPart reports whether calls like the last one should wait for a larger part.
func (a *account) wantsPart() bool { return a.short() && a.part < a.cap.Counted()+max(1, a.last) }

// elsewhere is what counts in other processes, or 0 if that is unknown now.
func (a *account) elsewhere() int64 {
	if !a.isCommon() || !a.of.set.InForce() {
		return 0
	}
	return a.others
}

// usedByAll is what counts here and in other processes, in the books' units.
func (a *account) usedByAll(now time.Time) int64 {
	if a.split != nil {
		return a.used(now)
	}
	return a.used(now) + a.others
}

// inFlight is what calls in flight hold, here and in other processes.
func (a *account) inFlight() int64 {
	if a.grants == nil && !a.isCommon() {
		return a.pending
	}
	return a.pending + a.othersPending
}

// ifAsked is a copy of the account to try a call on, as if this process had been given all that
// others do not use.
func (a *account) ifAsked() *account {
	c := a.clone()
	if c.split != nil { // without parts it has all that is left
		c.grants = nil
	}
	if c.isCommon() {
		c.part = c.limit() - c.elsewhere()
		c.limitCap()
	}
	return c
}
