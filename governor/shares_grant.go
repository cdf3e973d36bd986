package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
)

// A pool's budget is divided over processes in two ways at once. Each process has a grant of the
// whole, so that all together use no more than there is; and one of each member's
// share. A member that may use all that is left needs no grant of the second kind: near the end of a
// budget one process might hold the last of the one, and another the last of the other. Shares are
// computed from the usage of all processes: a claim says how much a member used here, the answer how
// much it used elsewhere.

// budgetGrants are the grants of a pool's budget, in the books' units.
type budgetGrants struct {
	*poolGrants
	all     budgetGrant
	members map[budget.MemberID]*budgetGrant // whose calls come here
	short   bool                             // the last call that asked lacked a grant
}

// budgetGrant is how much may be used here of a budget, or of one member's share of it.
type budgetGrant struct {
	amount int64     // usable here
	before int64     // usage here as of the last Claim, in the budget's own units
	last   int64     // cost of the member's last call
	at     time.Time // when it did
	lacks  bool      // a call lacked a grant since the last Claim
}

// whole reports whether this process may use all that is known to be left, because nobody says how
// much and the pool is not configured to close.
func (l *budgetGrants) whole() bool {
	return !l.slots.Granted() && l.slots.IsAlone() && l.onLoss() != LossClosed
}

// drop gives up all grants.
func (l *budgetGrants) drop() {
	l.all.amount = 0
	clear(l.members)
}

// holdGranted holds c of a split of which this process has grants, or refuses if one is too small.
func (a *account) holdGranted(now time.Time, member budget.MemberID, c int64) (budget.Hold, budget.Answer) {
	l := a.grants
	l.short = false
	if l.whole() {
		return a.split.Hold(now, member, c)
	}
	if !l.slots.Granted() {
		l.drop()
	}
	m := l.members[member]
	if m == nil {
		m = &budgetGrant{}
		l.members[member] = m
	}
	m.at = now
	m.last = a.last
	room := a.split.Room(now, member)
	all := l.all.amount - a.split.Here()
	own := m.amount - a.split.HereBy(now, member)
	left := a.limit() - a.split.Counted()
	switch {
	case c > own && own < room && room < left: // a member that may use all that is left needs no grant of its own
		l.short = true
		m.lacks = true
	case c > all && all < left:
		l.short = true
		l.all.lacks = true
	default:
		return a.split.Hold(now, member, c)
	}
	return budget.Hold{}, budget.Answer{Remaining: max(0, min(all, own, room))}
}
