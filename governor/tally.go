package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/governor/record"
	"github.com/llmgov/llmgov/governor/terms"
)

// tally is the usage by calls in the present periods, whether there are budgets or not: those of
// this process, and those that it remembers from before. Budgets that a later configuration adds
// begin with it.
//
// It counts calls that have ended. A call that runs when a budget is added holds nothing of it, and
// is booked there when it ends.
type tally struct {
	uses  *record.Uses
	ended uint64 // how many calls were counted
}

// note counts a call in a pool that has ended, and returns its number. What it took besides counts in no pool.
func (t *tally) note(now time.Time, st *leaseState, pool string, took, besides terms.Spend) uint64 {
	at := st.seat
	row := at.used
	if row == nil && took != (terms.Spend{}) {
		row = t.uses.Row(now, record.Owner{Tenant: st.holds.books, Pool: pool})
	}
	if at.of == nil { // those of members come and go
		at.used = row
	}
	t.uses.Take(now, row, took)
	if at.of != nil {
		at.tenant.load.add(now, took[UnitTokens])
	}
	if besides != (terms.Spend{}) {
		t.uses.Take(now, t.uses.Row(now, record.Owner{Tenant: st.holds.books}), besides)
	}
	t.ended++
	return t.ended
}

// recall is the earlier usage that a new configuration finds.
type recall struct {
	*tally
	shares   []record.ShareState // how pools' budgets stood when the process before this one ended
	starting bool                // the process begins
}

// knows reports whether a new budget begins with earlier usage. The store remembers the usage of a
// shared budget by earlier processes.
func (r *recall) knows(shared bool) bool { return !r.starting || !shared }

// bookEnded books the call that ended as the given one in the budgets of which it holds nothing,
// because they came later.
func (o *ownLimits) bookEnded(now time.Time, ended uint64, list []held, took terms.Spend) {
	for _, a := range o.caps {
		if ended <= a.began || a.heldBy(list) {
			continue
		}
		a.book(now, budget.MemberID{}, took[a.Unit])
	}
}

// bookEnded does the same for a pool's budgets.
func (p *pool) bookEnded(now time.Time, at *seat, list []held, took terms.Spend) {
	at = p.present(at)
	if at == nil {
		return
	}
	for i, a := range p.shares {
		if a.heldBy(list) {
			continue
		}
		a.book(now, at.members[i], took[a.Unit])
	}
}

// heldBy reports whether one of the holds is of the account, or of one that it has replaced.
func (a *account) heldBy(list []held) bool {
	for _, h := range list {
		if h.account.origin() == a.origin() {
			return true
		}
	}
	return false
}

// origin is the first of accounts that replaced each other, each with all that was held of the one
// before.
func (a *account) origin() *account {
	if a.first != nil {
		return a.first
	}
	return a
}
