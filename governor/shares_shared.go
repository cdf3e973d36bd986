package governor

import (
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
)

// ShareDemand is the demand of this process on a pool's budget: on all of it, or on the share of one
// member. Amounts are in units of Scale.
type ShareDemand struct {
	Name  string // of the budget, its present period and the member
	Ends  time.Time
	Scale int64
	// Whole says that it is about all of the budget, and Told that nothing is demanded: it only tells
	// the usage of a member whose calls do not come here, to learn its usage elsewhere.
	Whole, Told bool
	// Limit is how much may be used in all processes, and Left the rest of the budget.
	Limit, Left int64
	// Here is the usage of this process, of which Pending is held by calls in flight. Before is
	// Here as of the last Claim.
	Here, Pending, Before int64
	// Last is the cost of the last call. Lacks says that since the last Claim a call lacked a grant.
	Last  int64
	Lacks bool
	// Wanted says that calls may come: the pool is in the configuration, and calls can begin.
	Wanted bool

	budget *account
	grant  *budgetGrant // nil if nothing is demanded
	member budget.MemberID
}

// ShareGrant is how much this process may use of a pool's budget, or of a member's share of it.
type ShareGrant struct {
	Of ShareDemand
	// Amount is the grant itself, Others is the usage of other processes, and Held of that is
	// held by calls in flight. They are in the budget's own units.
	Amount, Others, Held int64
}

const (
	// In one beat at most membersTold members of a budget are told of whose calls do not come here;
	// others take their turns. That happens every membersEvery: the store keeps the figures of the others.
	membersTold  = 100
	membersEvery = 900 * time.Millisecond
	// A member is taken to have calls here until memberRests after its last one.
	memberRests = 5 * time.Second
)

// turns is which members are told of next.
type turns struct {
	next    int       // index in order
	at      time.Time // when members were last told of
	order   []*seat   // seats by name, as of orderOf
	orderOf *poolTree
}

// demands reads the demands on the pool's budgets. wanted says that calls may come.
func (t *turns) demands(now time.Time, p *pool, wanted bool) (list []ShareDemand) {
	turn := now.Sub(t.at) >= membersEvery && len(p.shares) > 0
	if turn {
		t.sort(p)
	}
	for i, a := range p.shares {
		a.advance(now)
		if !p.slots.Granted() {
			a.grants.drop()
		}
		list = append(list, a.wholeDemand(wanted))
		list = a.memberDemands(now, wanted, list)
		if turn {
			list = t.tell(now, a, i, list)
		}
	}
	if turn {
		t.pass(now)
	}
	return list
}

// wholeDemand is the demand on all of a pool's budget.
func (a *account) wholeDemand(wanted bool) ShareDemand {
	d := a.shareDemand(a.periodName(), a.split.Here(), a.limit())
	d.Whole = true
	d.Wanted = wanted
	d.Left = a.limit() - a.split.Counted()
	d.Pending = a.pending
	a.grants.all.claimed(&d)
	return d
}

// memberDemands adds the demands of the members whose calls come here, and gives up the grants of
// others.
func (a *account) memberDemands(now time.Time, wanted bool, list []ShareDemand) []ShareDemand {
	for id, m := range a.grants.members {
		name := a.split.Name(id)
		if !wanted || name == "" || now.Sub(m.at) >= memberRests {
			delete(a.grants.members, id)
			continue
		}
		may := a.split.UsedBy(now, id) + a.split.Room(now, id)
		d := a.shareDemand(a.memberName(name), a.split.HereBy(now, id), may)
		d.Wanted = true
		d.member = id
		m.claimed(&d)
		list = append(list, d)
	}
	return list
}

// claimed fills in the figures of calls since the last Claim.
func (m *budgetGrant) claimed(d *ShareDemand) {
	d.Before = m.before
	d.Last = m.last
	d.Lacks = m.lacks
	d.grant = m
	m.before = d.Here
	m.lacks = false
}

func (a *account) shareDemand(name string, here, limit int64) ShareDemand {
	return ShareDemand{Name: name, Ends: a.ends, Scale: a.scale, Limit: limit, Here: here, budget: a}
}

// memberName names a member's share. No tenant's name contains a space.
func (a *account) memberName(tenant string) string { return a.periodName() + " of " + tenant }

// sort lists the pool's seats by name, if they have changed.
func (t *turns) sort(p *pool) {
	if t.orderOf == p.tree.shared {
		return
	}
	t.order = t.order[:0]
	t.orderOf = p.tree.shared
	for _, st := range p.seats {
		t.order = append(t.order, st)
	}
	slices.SortFunc(t.order, func(a, b *seat) int { return strings.Compare(a.tenant.name, b.tenant.name) })
}

// tell adds members whose turn it is to be told of, on the i-th budget.
func (t *turns) tell(now time.Time, a *account, i int, list []ShareDemand) []ShareDemand {
	for n := range min(len(t.order), membersTold) {
		st := t.order[(t.next+n)%len(t.order)]
		id := st.members[i]
		here := a.split.HereBy(now, id)
		if a.grants.members[id] == nil {
			d := a.shareDemand(a.memberName(st.tenant.name), here, a.limit())
			d.Told = true
			d.member = id
			list = append(list, d)
		}
	}
	return list
}

// pass gives others their turns.
func (t *turns) pass(now time.Time) {
	t.at = now
	t.next += membersTold
	if t.next >= len(t.order) {
		t.next = 0
	}
}

// counts reports whether the demand is of the present period.
func (d *ShareDemand) counts(now time.Time) bool {
	d.budget.advance(now)
	return strings.HasPrefix(d.Name, d.budget.periodName())
}

// allowShares puts grants of budgets in force. Those of a period that is over are left out.
func allowShares(now time.Time, list []ShareGrant) {
	others := map[*account]int64{}
	for i := range list {
		grant := &list[i]
		a := grant.Of.budget
		if !grant.Of.counts(now) {
			continue
		}
		if grant.Of.grant != nil {
			grant.Of.grant.amount = grant.Amount / a.scale
		}
		if !grant.Of.Whole {
			a.split.Elsewhere(now, grant.Of.member, a.units(grant.Others))
			continue
		}
		a.heldElsewhere = a.units(grant.Held)
		others[a] = a.units(grant.Others)
	}
	for a, used := range others {
		a.split.ElsewhereInAll(now, used)
	}
}
