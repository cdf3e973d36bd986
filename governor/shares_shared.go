package governor

import (
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
)

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
func (t *turns) demands(now time.Time, p *pool, wanted bool) (list []limits.Demand) {
	turn := now.Sub(t.at) >= membersEvery && len(p.shares) > 0
	if turn {
		t.sort(p)
	}
	for i, a := range p.shares {
		whole := a.demand(now)
		if !wanted {
			whole.Left = 0
		}
		if !p.slots.Granted() {
			a.grants.drop()
		}
		a.grants.all.claimed(&whole, a.scale)
		list = a.memberDemands(now, wanted, append(list, whole))
		if turn {
			list = t.tell(now, a, i, list)
		}
	}
	if turn {
		t.pass(now)
	}
	return list
}

// memberDemands adds the demands of the members whose calls come here, and gives up the grants of
// others.
func (a *account) memberDemands(now time.Time, wanted bool, list []limits.Demand) []limits.Demand {
	for id, m := range a.grants.members {
		name := a.split.Name(id)
		if !wanted || name == "" || now.Sub(m.at) >= memberRests {
			delete(a.grants.members, id)
			continue
		}
		may := a.split.UsedBy(now, id) + a.split.Room(now, id)
		d := a.demandOf(a.periodName()+ofMember+name, a.split.HereBy(now, id), may)
		d.Last = m.last * a.scale
		m.claimed(&d, a.scale)
		list = append(list, d)
	}
	return list
}

// claimed fills in the figures of calls since the last Claim.
func (m *budgetGrant) claimed(d *limits.Demand, scale int64) {
	d.Recent = d.Used - m.before
	if m.lacks {
		d.Need = min(d.Limit, d.Used+max(scale, d.Last))
	}
	m.before = d.Used
	m.lacks = false
}

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
func (t *turns) tell(now time.Time, a *account, i int, list []limits.Demand) []limits.Demand {
	for n := range min(len(t.order), membersTold) {
		st := t.order[(t.next+n)%len(t.order)]
		id := st.members[i]
		if a.grants.members[id] == nil {
			list = append(list, a.demandOf(a.periodName()+ofMember+st.tenant.name, a.split.HereBy(now, id), a.limit()))
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
