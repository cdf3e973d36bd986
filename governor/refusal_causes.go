package governor

import (
	"cmp"
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/refusal"
	"github.com/llmgov/llmgov/governor/terms"
)

// Refusals are made in the files refusal*.go, and nowhere else: by one constructor for each cause, and
// one each for own limits, budgets and pools that fills in the figures of all their causes. A new datum of
// refusals is a field of Refusal that a constructor fills in.

// refuseUnknown refuses a call whose tenant does not exist, or may not use its pool, or that names no pool that exists.
func (c *call) refuseUnknown() *Refusal {
	return &Refusal{Reason: ReasonUnknown, Own: c.g.table.tenants[terms.OwnerOf(c.req.Tenant)] == nil, Tenant: c.req.Tenant}
}

// refuseDraining refuses a call because the governor drains.
func refuseDraining(tenant string) *Refusal {
	return &Refusal{Reason: ReasonDraining, Tenant: tenant, RetryAfter: refusal.DrainRetry}
}

// refuseUnkept refuses a call because the journal cannot be written.
func refuseUnkept(tenant, pool string) *Refusal {
	return &Refusal{Reason: ReasonStore, Tenant: tenant, Pool: pool, RetryAfter: refusal.StoreRetry}
}

// refuseUnanswered refuses a call whose wait for the store's answer was broken off. The reason is given
// by because.
func refuseUnanswered(owner string) *Refusal {
	return &Refusal{Own: true, Tenant: owner}
}

// refuseLost refuses a call because its pool can admit nothing until the store answers again.
func refuseLost(tenant string) *Refusal {
	return &Refusal{Reason: ReasonStoreLost, Tenant: tenant, RetryAfter: refusal.LossRetry}
}

// refuseOwnLost refuses a call because the store that counts its tenant's limits does not answer, or cannot read them.
func refuseOwnLost(owner string) *Refusal {
	return &Refusal{Reason: ReasonStoreLost, Own: true, Tenant: owner, RetryAfter: refusal.LossRetry}
}

// reasonOf is the reason for refusing a call that a limit has no room for, by the axis of the limit.
func reasonOf(axis string) Reason {
	switch axis {
	case refusal.AxisRequests:
		return ReasonRequests
	case refusal.AxisConcurrency:
		return ReasonConcurrency
	}
	return ReasonTokens
}

// refuseLimit refuses a call by an own limit.
func (o *ownLimits) refuseLimit(k limits.Axis, asked limits.Cost, wait time.Duration) *Refusal {
	return &Refusal{
		Reason: reasonOf(o.set.Kind(k).String()), Own: true, Tenant: o.owner, InPool: o.pool != "", RetryAfter: wait,
		Axis: o.set.Name(k), Limit: o.set.Limit(k), Used: o.set.Used(k), Asked: o.set.Amount(k, asked),
	}
}

// refuseLack refuses a call of a cost, which comes by via, because of a lack.
func (o *ownLimits) refuseLack(now time.Time, cost limits.Cost, lack limits.Lack, via limits.Via) *Refusal {
	rej := o.refuseAxis(now, cost, lack)
	if lack.Full {
		byLine(rej, lack, via)
	}
	return rej
}

// byLine makes of a refusal by an own limit one by its line, if that, or a team's share of it, is full.
// It returns nil if the call may wait.
func byLine(r *Refusal, lack limits.Lack, via limits.Via) *Refusal {
	switch {
	case !lack.Full:
		return nil
	case lack.Waiting == 0: // no call may wait
		return r
	}
	r.Reason = ReasonQueueFull
	r.Used = lack.Waiting
	if lack.OfTeam {
		r.Tenant = via.Team
	}
	return r
}

func (o *ownLimits) refuseAxis(now time.Time, cost limits.Cost, lack limits.Lack) *Refusal {
	if o.sharing != nil && o.sharing.shut {
		return refuseOwnLost(o.owner)
	}
	if lack.Axis != limits.Budget {
		return o.refuseLimit(lack.Axis, cost, lack.Wait)
	}
	a := o.caps[slices.IndexFunc(o.caps, (*account).lacksGrant)]
	return a.refuseElsewhere(now, max(1, a.last))
}

// refusal explains why a budget did not let a call in, by the event that has to come first:
//   - The budget is spent: the call may come back in the next period.
//   - Calls in flight are in the way: when they end, after meanRun on average, they give back the rest of
//     their holds. If that will not suffice, the call may come back in the next period.
//   - The rest is reserved for others, whose claims fade with time.
func (a *account) refusalOf(now time.Time, member budget.MemberID, s terms.Spend, ans budget.Answer, meanRun time.Duration) *Refusal {
	asked := s[a.Unit]
	c := min(a.units(asked), a.limit())
	used := a.usedByAll(now)
	inFlight := a.inFlight()
	untilReset := a.ends.Sub(now)
	switch {
	case a.short():
		return a.refuseElsewhere(now, c)
	case used-inFlight >= a.limit():
		return a.refuse(ReasonBudget, used-inFlight, asked, untilReset)
	case used+c > a.limit() && inFlight > 0:
		wait := untilReset
		if used-a.comesBack()+c <= a.limit() || a.Per == budget.Life {
			wait = min(cmp.Or(meanRun, time.Second), untilReset)
		}
		return a.refuse(unitReasons[a.Unit], used, asked, wait)
	}
	rej := a.refuse(ReasonShare, a.split.UsedBy(now, member), asked, ans.RetryAt.Sub(now))
	rej.Limit = ans.Ceiling * a.scale
	return rej
}

// refusal explains why a budget has no room for the spending of a call.
func (b *holds) refusal(now time.Time, a *account, member budget.MemberID, ans budget.Answer) *Refusal {
	if b.exact && a.usedByAll(now)+a.units(b.spend[a.Unit]) > a.limit() {
		return a.refuseCommitment(now, b.spend[a.Unit])
	}
	return a.refusalOf(now, member, b.spend, ans, b.meanRun)
}

// refuseCommitment refuses work that may take more than is left of a budget: until the next period or, if
// calls in flight are in its way, until some of their holds may have been given back.
func (a *account) refuseCommitment(now time.Time, asked int64) *Refusal {
	used := a.usedByAll(now)
	settled := used - a.inFlight()
	wait := a.ends.Sub(now)
	if settled >= a.limit() {
		return a.refuse(ReasonBudget, settled, asked, wait)
	}
	if settled+a.units(asked) <= a.limit() {
		wait = min(wait, commitRetry)
	}
	rej := a.refuse(unitReasons[a.Unit], used, asked, wait)
	rej.Committing = true
	return rej
}

// refuseElsewhere refuses a call that has to wait because too little of a budget is granted to this process.
func (a *account) refuseElsewhere(now time.Time, c int64) *Refusal {
	rej := a.refuse(unitReasons[a.Unit], a.usedByAll(now), c*a.scale, limits.GrantRetry)
	rej.Elsewhere = true
	return rej
}

// unitReasons are the reasons for refusing a call that a budget has no room for although it is not
// spent.
var unitReasons = [units]Reason{UnitTokens: ReasonTokens, UnitRequests: ReasonRequests, UnitMicroUSD: ReasonTokens}

// refuse refuses a call by a budget, of which so much is used, in the books' units.
func (a *account) refuse(why Reason, used, asked int64, wait time.Duration) *Refusal {
	rej := &Refusal{
		Reason: why, Budget: a.Budget, Resets: a.ends, RetryAfter: max(wait, time.Millisecond),
		Limit: a.Limit, Used: used * a.scale, Asked: asked,
	}
	if a.of != nil {
		rej.Own = true
		rej.Tenant = a.of.owner
	}
	return rej
}

// because overrides the reason of a refusal if the wait was broken off.
func (c *call) because(r *Refusal, why cause) {
	switch why {
	case gone:
		r.Reason = ReasonCancelled
	case draining:
		r.Reason = ReasonDraining
		r.RetryAfter = refusal.DrainRetry
	case lostAll:
		*r = *refuseLost(r.Tenant)
	case unplaced:
		*r = *c.refuseUnknown()
	}
}

// worse returns the refusal that will last longer, where a spent budget lasts longest.
func worse(r, o *Refusal) *Refusal {
	if r == nil || o.Reason == ReasonBudget && r.Reason != ReasonBudget || (o.Reason == ReasonBudget) == (r.Reason == ReasonBudget) && o.RetryAfter > r.RetryAfter {
		return o
	}
	return r
}

// after adds to how long the call waited before it was refused. There may be no refusal.
func after(r *Refusal, waited time.Duration) *Refusal {
	if r != nil {
		r.Waited += waited
	}
	return r
}

// inPool names the pool to which the call was made. There may be no refusal.
func inPool(r *Refusal, name string) {
	if r != nil {
		r.Pool = name
	}
}

// ofTenant names the tenant whose call was refused by a budget of its pool.
func ofTenant(r *Refusal, tenant string) { r.Tenant = tenant }

// keeps says whether the call's place is kept.
func keeps(r *Refusal, place bool) *Refusal {
	r.Kept = place
	return r
}

// retryIn changes when the call may come back.
func retryIn(r *Refusal, wait time.Duration) { r.RetryAfter = wait }
