package governor

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
)

// periodName names the budget and its present period to other processes. It says nothing of the
// books' units, which may differ there.
func (a *account) periodName() string { return a.Name() + " " + strconv.FormatInt(a.ends.Unix(), 10) }

// ofMember is between the name of a period and that of a member whose share is meant. No tenant's name contains a space.
const ofMember = " of "

// demand is the demand on all of the budget in its present period. The caller adds Waiting and Need, because only the owner of the budget
// knows its line.
func (a *account) demand(now time.Time) limits.Demand {
	a.advance(now)
	here := a.used(now)
	if a.split != nil {
		here = a.split.Here()
	}
	d := a.demandOf(a.periodName(), here, a.limit())
	d.Held = min(here, a.pending) * a.scale
	d.Left = (a.limit() - a.usedByAll(now)) * a.scale
	d.Last = a.last * a.scale
	return d
}

// demandOf is the demand on the budget, or on a member's share of it, of which so much is used here.
func (a *account) demandOf(name string, here, limit int64) limits.Demand {
	return limits.Demand{Axis: limits.Budget, Name: name, Ends: a.ends, Limit: limit * a.scale, Used: here * a.scale}
}

// allow puts the grant of the budget's present period in force, and those of members' shares. The grant of a period that is over does nothing.
func (a *account) allow(now time.Time, list []Grant) {
	a.advance(now)
	if a.split != nil {
		a.allowMembers(now, list) // before the usage of all others is known, of which theirs is a part
	}
	grant := grantOf(a.periodName(), list)
	switch {
	case grant == nil:
		return
	case a.split != nil:
		a.grants.all.amount = grant.Amount / a.scale
		a.split.ElsewhereInAll(now, a.units(grant.Others))
	default:
		a.granted = grant.Amount / a.scale
		a.others = a.units(grant.Others)
	}
	a.heldElsewhere = a.units(grant.Held)
}

// allowMembers puts the grants of members' shares in force. A member whose calls do not come here has none, but its usage elsewhere counts.
func (a *account) allowMembers(now time.Time, list []Grant) {
	prefix := a.periodName() + ofMember
	for i := range list {
		name, ofShare := strings.CutPrefix(list[i].Name, prefix)
		if !ofShare {
			continue
		}
		member := a.split.Member(name)
		if m := a.grants.members[member]; m != nil {
			m.amount = list[i].Amount / a.scale
		}
		a.split.Elsewhere(now, member, a.units(list[i].Others))
	}
}

// grantOf is the grant of a name, or nil.
func grantOf(name string, list []Grant) *Grant {
	i := slices.IndexFunc(list, func(grant Grant) bool { return grant.Name == name })
	if i < 0 {
		return nil
	}
	return &list[i]
}

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
