package governor

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/governor/terms"
)

// The books of one budget, whichever package budget keeps them: a cap for a tenant, a split for
// a pool.

// account is one budget with its books.
//
// Package budget counts up to budget.MaxLimit. Of a limit above that, which only
// money reaches, it counts in units of scale: calls rounded up, the limit down.
type account struct {
	Budget
	scale int64
	cap   *budget.Cap   // of a tenant
	split *budget.Split // of a pool, over its tenants
	of    *ownLimits    // of is whose budget it is; nil for a pool's.
	first *account      // see origin
	began uint64        // the last call that ended before it was there, by the tally

	// Calls in flight hold pending of the period that ends at ends.
	ends    time.Time
	pending int64
	// committed is the part of pending that commitments hold, which does not come back soon.
	committed int64
	ended     turnover

	// For a tenant's budget that is shared with other processes, in the books' units.
	granted       int64 // usable in this process
	others        int64 // used in other processes
	heldElsewhere int64 // how much of that is held by calls in flight there
	last          int64 // expected cost of the last call
	noRoom        noRoom

	recalled bool // what earlier processes used is counted

	grants *budgetGrants // for a pool's budget that is divided over processes; else nil
}

// nobody is the member that asks for a tenant's own budget, which has no members.
var nobody = func(int) budget.MemberID { return budget.MemberID{} }

// held is the hold of one call on an account. It keeps the account that it was held of: a reload may
// have put another in its place.
type held struct {
	*account
	hold budget.Hold
	till time.Time
	// committed says that a commitment holds it.
	committed bool
}

func newAccount(b Budget) *account {
	return &account{Budget: b, scale: (b.Limit-1)/budget.MaxLimit + 1}
}

func newCap(b Budget, zone *time.Location, of *ownLimits) *account {
	a := newAccount(b)
	a.of = of
	a.cap = budget.NewCap(b.Limit/a.scale, b.Per, zone)
	return a
}

func newSplit(b Budget, zone *time.Location, l *poolGrants) *account {
	a := newAccount(b)
	if l != nil {
		a.grants = &budgetGrants{poolGrants: l, members: map[budget.MemberID]*budgetGrant{}}
	}
	a.split = budget.NewSplit(budget.Config{Limit: b.Limit / a.scale, Period: b.Per, Zone: zone})
	return a
}

// clone copies an account with its books.
func (a *account) clone() *account {
	c := *a
	if a.cap != nil {
		books := *a.cap
		c.cap = &books
	} else {
		c.split = a.split.Clone()
	}
	return &c
}

// resize gives the account the limit of a budget of the same name. It reports false, and does
// nothing, if the books would have to count in other units for it.
func (a *account) resize(b Budget) bool {
	if newAccount(b).scale != a.scale {
		return false
	}
	a.Budget = b
	if a.cap != nil {
		a.applyGrant()
	} else {
		a.split.SetLimit(b.Limit / a.scale)
	}
	return true
}

// advance moves the account to now. When a period is over, the holds of calls in flight are
// forgotten.
func (a *account) advance(now time.Time) {
	ends := time.Time{}
	if a.cap != nil {
		ends = a.cap.ResetAt(now)
	} else {
		ends = a.split.ResetAt(now)
	}
	if !ends.Equal(a.ends) {
		a.ends = ends
		a.pending = 0
		a.committed = 0
		if a.of != nil && a.of.sharing != nil {
			a.granted = 0
			a.others = 0
			a.heldElsewhere = 0
			a.applyGrant()
		}
		if a.grants != nil {
			a.heldElsewhere = 0
			a.grants.all.before = 0
			a.grants.drop()
		}
	}
}

// units converts an amount to the books' units, rounded up.
func (a *account) units(n int64) int64 { return (n + a.scale - 1) / a.scale }

// limit is the budget's limit in the books' units.
func (a *account) limit() int64 { return a.Limit / a.scale }

// used is the usage of the present period, settled and held, in the books' units.
func (a *account) used(now time.Time) int64 {
	if a.cap != nil {
		return a.cap.Used(now)
	}
	return a.split.Used(now)
}

// hold sets the expected cost of a call aside, for the member of a split that asks.
//
// An expectation is a guess, and a poor one at the start, when no call has ended yet. So if nothing
// is in flight that could give anything back, a call that does not fit goes with the rest: no
// guess bars anybody from the rest of a budget until its reset. That exceeds the budget by at most
// one call. It does not apply to the rest of a grant, because there is more elsewhere; nor to a
// commitment, which is no guess.
func (a *account) hold(now time.Time, member budget.MemberID, b *holds) (held, budget.Answer) {
	a.advance(now)
	asked := a.units(b.spend[a.Unit])
	c := min(asked, a.limit())
	a.last = c
	if b.exact {
		h, ans := a.ask(now, member, asked)
		a.pending += h.Amount()
		a.committed += h.Amount()
		return held{account: a, hold: h, till: a.ends, committed: true}, ans
	}
	h, ans := a.ask(now, member, c)
	if !ans.OK && a.inFlight() == a.committed && ans.Remaining > 0 && !a.short() {
		h, ans = a.ask(now, member, ans.Remaining)
	}
	a.pending += h.Amount()
	return held{account: a, hold: h, till: a.ends}, ans
}

func (a *account) ask(now time.Time, member budget.MemberID, c int64) (budget.Hold, budget.Answer) {
	if a.cap != nil {
		return a.cap.Hold(now, c)
	}
	if a.grants != nil {
		return a.holdGranted(now, member, c)
	}
	return a.split.Hold(now, member, c)
}

// settle replaces the hold of a call by its actual cost.
func (a *account) settle(now time.Time, h held, s terms.Spend) {
	a.advance(now)
	present := h.till.Equal(a.ends)
	if present {
		a.pending -= h.hold.Amount()
	}
	took := a.units(s[a.Unit])
	switch {
	case !h.committed:
		a.ended.note(h.hold.Amount(), took)
	case present:
		a.committed -= h.hold.Amount()
	}
	if a.cap != nil {
		a.cap.Settle(now, h.hold, took)
	} else {
		a.split.Settle(now, h.hold, took)
	}
}

// comesBack is how much of the holds in flight is expected back when their calls end.
func (a *account) comesBack() int64 { return a.ended.back(a.inFlight() - a.committed) }

// turnover compares the holds of recent calls with their actual costs.
type turnover struct{ held, took float64 }

// note takes in a call that has ended. One that took nothing was refused after all, or failed, and
// says nothing about those that run.
func (t *turnover) note(held, took int64) {
	if held <= 0 || took <= 0 {
		return
	}
	t.held += float64(held) - t.held/16
	t.took += float64(took) - t.took/16
}

// back is how much of an amount held is expected back: all of it while no call has ended.
func (t *turnover) back(held int64) int64 {
	if t.held == 0 {
		return held
	}
	return int64(float64(held) * max(0, 1-t.took/t.held))
}

// restated is the state of a pool's budget, in units of another scale.
func (a *account) restated(now time.Time, scale int64) budget.SplitState {
	st := a.split.State(now)
	st.Gone = st.Gone * a.scale / scale
	for i := range st.Members {
		st.Members[i].Used = st.Members[i].Used * a.scale / scale
	}
	return st
}

// unused reports whether nothing counts against any of the accounts. Of who is gone no life counts.
func unused(now time.Time, accounts []*account, gone bool) bool {
	return !slices.ContainsFunc(accounts, func(a *account) bool { return a.used(now) > 0 && !(gone && a.Per == budget.Life) })
}

// configureCaps replaces a tenant's budgets by a list. Those that stay keep their usage.
func (o *ownLimits) configureCaps(now time.Time, list []Budget, zone *time.Location, r *recall) {
	was := o.caps
	o.caps = nil
	for _, b := range list {
		i := slices.IndexFunc(was, func(a *account) bool { return a.Same(b) })
		if i >= 0 && was[i].resize(b) {
			o.caps = append(o.caps, was[i])
			continue
		}
		a := newCap(b, zone, o)
		a.applyGrant()
		if i >= 0 {
			st := was[i].cap.State(now)
			st.Used = a.units(st.Used * was[i].scale)
			a.cap.Restore(now, st)
			a.first = was[i].origin()
			a.began = was[i].began
			a.recalled = was[i].recalled
		} else if r.knows(o.sharing != nil) {
			used, start := r.uses.OfTenant(now, o.owner, b)
			a.cap.Restore(now, budget.CapState{Start: start, Used: a.units(used)})
			a.began = r.ended
			a.recalled = true
		}
		o.caps = append(o.caps, a)
	}
}
