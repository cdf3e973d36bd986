package governor

import "time"

// isShared reports whether calls in other processes count against the budget, too.
func (a *account) isShared() bool { return a.of != nil && a.of.set.Shared() }

// applyGrant puts in force how much of a tenant's budget this process may use. When nobody answers,
// the known usage of the period by others stays.
func (a *account) applyGrant() {
	limit := a.limit()
	switch {
	case a.isShared():
		limit = min(limit, a.granted)
	case a.of.sharing != nil: // usage of a period by others stays
		limit = max(0, limit-a.others)
	}
	a.cap.SetLimit(limit)
}

// short reports whether this process lacks a grant although the budget has room: more than the
// grant is neither used nor known to be others'.
func (a *account) short() bool {
	if a.split != nil {
		return a.grants != nil && a.grants.short
	}
	left := a.limit() - a.elsewhere()
	return a.isShared() && a.cap.Counted() < left && a.granted < left
}

// lacksGrant reports whether calls like the last one should wait for a larger grant.
func (a *account) lacksGrant() bool {
	return !a.Background && a.short() && a.granted < a.cap.Counted()+max(1, a.last)
}

// elsewhere is the usage of other processes, or 0 if that is unknown now.
func (a *account) elsewhere() int64 {
	if !a.isShared() || !a.of.set.InForce() {
		return 0
	}
	return a.others
}

// usedByAll is the usage of all processes, in the books' units.
func (a *account) usedByAll(now time.Time) int64 {
	if a.split != nil {
		return a.used(now)
	}
	return a.used(now) + a.others
}

// inFlight is held by calls in flight, here and in other processes.
func (a *account) inFlight() int64 {
	if a.grants == nil && !a.isShared() {
		return a.pending
	}
	return a.pending + a.heldElsewhere
}

// ifAsked is a copy of the account to try a call on, as if this process had been given all that
// others do not use.
func (a *account) ifAsked() *account {
	c := a.clone()
	if c.split != nil { // without grants it has all that is left
		c.grants = nil
	}
	if c.isShared() {
		c.granted = c.limit() - c.elsewhere()
		c.applyGrant()
	}
	return c
}
