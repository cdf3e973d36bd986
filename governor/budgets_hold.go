package governor

import (
	"cmp"
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
)

// How one call holds what it is expected to spend of several budgets, all or none, and why it
// is refused if one has no room.

// holdSharesLocked holds what a call is expected to take of all the pool's budgets, or of none.
func (p *pool) holdSharesLocked(now time.Time, st *seat, b *tab) *Rejection {
	var rej *Rejection
	member := func(i int) budget.MemberID { return st.members[i] }
	if b.parts, rej = holdAll(now, p.shares, b.parts, member, b); rej != nil {
		rej.Tenant = st.tenant.name
		if rej.Elsewhere && p.lent.until.IsZero() {
			p.lostLocked(now, rej)
		}
	}
	return rej
}

// settleSharesLocked settles what a call holds of the pool's budgets.
func (p *pool) settleSharesLocked(now time.Time, b *tab, s Spend) {
	for _, h := range b.parts {
		h.settle(now, h, s)
	}
	b.parts = b.parts[:0]
}

// holdAll holds what a call is expected to spend of all accounts, or of none, and appends the holds
// to out. Of several refusals it returns the worst. A shadow holds what it can, and its refusal is
// only noted.
func holdAll(now time.Time, accounts []*account, out []held, member func(i int) budget.MemberID, b *tab) ([]held, *Rejection) {
	var worst *Rejection
	before := len(out)
	for i, a := range accounts {
		h, ans := a.hold(now, member(i), b.spend)
		switch {
		case ans.OK && (worst == nil || b.shadow):
			out = append(out, h)
		case ans.OK:
			a.settle(now, h, Spend{})
		default:
			switch {
			case !a.short():
			case a.of != nil:
				a.of.askForMoreLocked(ownCost{})
			default:
				a.askForMoreLocked()
			}
			if !b.shadow || !a.short() { // a shadow would have waited for a part, not been refused
				worst = worst.worse(a.rejection(now, member(i), b.spend, ans, b.meanRun))
			}
			if b.shadow {
				h.hold, _ = a.ask(now, member(i), 0)
				out = append(out, h)
			}
		}
	}
	switch {
	case worst == nil:
		return out, nil
	case b.shadow:
		b.note(worst)
		return out, nil
	}
	for _, h := range out[before:] {
		h.settle(now, h, Spend{})
	}
	return out[:before], worst
}

// unitReasons are the reasons for refusing a call that a budget has no room for although it is not
// spent.
var unitReasons = [units]Reason{UnitTokens: ReasonTokens, UnitRequests: ReasonRequests, UnitMicroUSD: ReasonTokens}

// rejection explains why a call was not let in, by what has to happen first:
//   - The budget is spent: the call may come back in the next period.
//   - Calls in flight hold what it needs: when they end, after meanRun on average, they give back
//     what they do not take. If that will not suffice, the call may come back in the next period.
//   - The rest is reserved for others, whose claims fade with time.
func (a *account) rejection(now time.Time, member budget.MemberID, s Spend, ans budget.Answer, meanRun time.Duration) *Rejection {
	c, used, inFlight := min(a.units(s[a.Unit]), a.limit()), a.usedByAll(now), a.inFlight()
	rej := &Rejection{Budget: a.Budget, Resets: a.ends, Limit: a.Limit, Used: used * a.scale, Asked: s[a.Unit]}
	untilReset := a.ends.Sub(now)
	switch {
	case a.short():
		return a.lacksPart(now, c)
	case used-inFlight >= a.limit():
		rej.Reason, rej.RetryAfter, rej.Used = ReasonBudget, untilReset, (used-inFlight)*a.scale
	case used+c > a.limit() && inFlight > 0:
		rej.Reason, rej.RetryAfter = unitReasons[a.Unit], untilReset
		if used-a.comesBack()+c <= a.limit() {
			rej.RetryAfter = min(cmp.Or(meanRun, time.Second), untilReset)
		}
	default:
		rej.Reason, rej.RetryAfter = ReasonShare, ans.RetryAt.Sub(now)
		rej.Limit, rej.Used = ans.Ceiling*a.scale, a.split.UsedBy(now, member)*a.scale
	}
	rej.RetryAfter = max(rej.RetryAfter, time.Millisecond)
	return rej
}

// worse returns the refusal that will last longer, where a spent budget lasts longest.
func (r *Rejection) worse(o *Rejection) *Rejection {
	if r == nil || o.Reason == ReasonBudget && r.Reason != ReasonBudget || (o.Reason == ReasonBudget) == (r.Reason == ReasonBudget) && o.RetryAfter > r.RetryAfter {
		return o
	}
	return r
}
