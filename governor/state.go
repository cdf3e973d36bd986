package governor

import (
	"fmt"
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/fairness"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/placement"
	"github.com/llmgov/llmgov/governor/terms"
)

// PoolState is a copy of a pool's books.
type PoolState struct {
	Config Pool
	// State is that of the pool's books. Used of its Axes is the usage of all processes as of the last
	// beat, and of this one since. UsedHere is the usage of this one alone.
	escrow.State
	UsedHere   escrow.Cost
	TicketsDue int // of Tickets
	Leases     []LeaseInfo
	Budgets    []BudgetState
	// Cuts are those in force; see Governor.Throttle.
	Cuts []Cut
	// SlotsUsed is how many calls run in all processes, of the State.Slots that may. SlotsHere is how
	// many may run in this process.
	SlotsUsed, SlotsHere int64
	// Room is how many calls in flight the servers behind an adaptive limit have room for; 0 if they do not say.
	Room int64
	// Degraded is the failure mode in force where limits are shared (Governor.Degraded), and Grant
	// how much may still be handed out before the grants expire.
	Degraded string
	Grant    escrow.Cost
	// Members is how many tenants and teams may use the pool, and Shares are those of all that were asked for. Jain and Deviation say how fairly it
	// was shared in the last minute (see fairness.Figures), and Unused how many tokens it could
	// have handed out so far while calls waited for them.
	Members         int
	Shares          []TenantShare
	Jain, Deviation float64
	Unused          int64
}

// Below is by how much the pool's limits of a minute are lower than configured, because its upstreams declare lower ones.
func (p *PoolState) Below() (less escrow.Cost) {
	for _, c := range slices.DeleteFunc(slices.Clone(p.Cuts), func(c Cut) bool { return c.Paced }) {
		for k, by := range placement.PoolCost(c.less()) {
			less[k] += by
		}
	}
	for k, limit := range p.Config.Minute() {
		less[k] = max(0, min(less[k], limit))
	}
	return less
}

// LeaseInfo describes one lease, or a call that waits for one.
type LeaseInfo struct {
	ID, Tenant, Pool string
	// State is waiting, running (admitted, but nothing produced yet) or streaming.
	State      string
	Age        time.Duration // since its dispatch or, while it waits, since it came
	Held, Used int64         // tokens
	Stream     bool
}

// Owner is its tenant or team, of which Tenant may name a member.
func (l *LeaseInfo) Owner() string { return terms.OwnerOf(l.Tenant) }

// TenantState is a copy of a tenant's own limits and budgets.
type TenantState struct {
	Config  Tenant
	Limits  []LimitState
	Running int64
	// InLine is how many calls wait for the tenant's own limits; Queued is how many wait in each
	// pool that the tenant may use, by the pool's name.
	InLine int
	Queued map[string]int
	// Budgets are the tenant's own, followed by its parts of its pools' budgets.
	Budgets []BudgetState
}

// BudgetState is one budget in its present period.
type BudgetState struct {
	Budget
	// Pool names the pool of whose budget this is a tenant's part: Used is then the tenant's, and
	// Limit is everybody's. It is empty for a whole budget.
	Pool string
	// Used is settled or held by calls in flight, of which Held is the latter; a tenant's part does not tell it.
	Used, Held int64
	Resets     time.Time
}

// LimitState is one own limit of a tenant, in one pool if that is named.
type LimitState struct {
	Axis, Pool  string
	Limit, Used int64
}

// State is a copy of everything, for the admin API and the metrics.
type State struct {
	Pools   []PoolState
	Tenants []TenantState
	// Gone are the calls that run and wait in pools that no configuration has any more.
	Gone []LeaseInfo
}

// State copies the books: all, or those of some tenants only, because there may be very many. A pool's own books and each tenant's are
// consistent in themselves, but not with the others.
func (g *Governor) State(only ...func(tenant string) bool) State {
	tb := g.inForce()
	list := tb.inOrder.tenants
	for _, some := range only { // which may ask the governor
		list = slices.DeleteFunc(slices.Clone(list), func(v *tenantView) bool { return !some(v.name) })
	}
	s := State{Tenants: make([]TenantState, 0, len(list))} // which takes long of very many, and so is not done under the lock
	now := g.look()
	defer g.unlock()
	for i, t := range list {
		s.Tenants = append(s.Tenants, t.state(now))
		now = g.blink(i, now)
	}
	for _, p := range tb.inOrder.pools {
		s.Pools = append(s.Pools, g.poolState(p, list, s.Tenants))
	}
	for _, p := range tb.gone {
		s.Gone = append(s.Gone, p.infos(now)...)
	}
	return s
}

// inForce is the table in force.
func (g *Governor) inForce() *table {
	g.look()
	defer g.unlock()
	return g.table
}

// poolState copies a pool's books, and adds the figures of each tenant to the tenants.
func (g *Governor) poolState(p *poolView, list []*tenantView, tenants []TenantState) PoolState {
	var figures fairness.Figures
	var view *treeView
	var shares []TenantShare
	now := g.aside(func() {
		figures, view = p.measure.figures()
		shares = make([]TenantShare, 0, len(list))
	})
	ps := PoolState{Shares: shares, Config: p.cfg, State: p.books(now), TicketsDue: p.escrow.TicketsDue(), Budgets: states(now, p.shares)}
	for k, a := range p.escrow.State(now).Axes {
		ps.UsedHere[k] = a.Used
	}
	p.slots.Expire(now)
	ps.Slots, ps.SlotsUsed = p.slots.InUse()
	ps.SlotsHere = p.slots.Together()
	ps.Room = p.room(now)
	ps.Leases = p.infos(now)
	ps.Cuts = slices.Clone(p.cuts)
	if p.set.Shared {
		ps.Degraded = p.degraded(now)
		ps.Grant = p.grant(now)
	}
	ps.Jain = figures.Jain
	ps.Deviation = figures.Deviation
	ps.Unused = p.escrow.Unused(now)
	ps.Members = len(p.seats)
	oldest := p.oldestWaits(now)
	for i, v := range list {
		now = g.blink(i, now)
		st := v.access[p.index].seat
		if st == nil || st.gone {
			continue
		}
		share := p.tenantShare(v, st, oldest[v.tenant])
		if view != nil {
			if at, ok := view.index[v.tenant]; ok {
				share.LeafFigures = figures.Leaves[at]
			}
		}
		ps.Shares = append(ps.Shares, share)
		p.addTo(&tenants[i], now, st)
	}
	return ps
}

// addTo adds the pool's figures of a tenant.
func (p *poolView) addTo(ts *TenantState, now time.Time, st *seat) {
	if st == nil || st.left() {
		return
	}
	ts.Queued[p.name] = p.escrow.Node(st.leaf).Waiting
	for i, a := range p.shares {
		a.advance(now)
		ts.Budgets = append(ts.Budgets, BudgetState{
			Budget: a.Budget, Pool: p.name, Used: a.split.UsedBy(now, st.whole().members[i]) * a.scale, Resets: a.ends,
		})
	}
}

// infos lists the calls that run and wait, even those of tenants that are gone.
func (p *pool) infos(now time.Time) []LeaseInfo {
	var out []LeaseInfo
	for slot := range p.leases {
		if st := &p.leases[slot]; st.seat != nil {
			out = append(out, p.info(now, slot, st))
		}
	}
	return out
}

func states(now time.Time, accounts []*account) []BudgetState {
	var out []BudgetState
	for _, a := range accounts {
		used := a.usedByAll(now) * a.scale
		a.advance(now)
		out = append(out, BudgetState{Budget: a.Budget, Used: used, Held: min(used, a.inFlight()*a.scale), Resets: a.ends})
	}
	return out
}

func (p *pool) info(now time.Time, slot int, st *leaseState) LeaseInfo {
	info := LeaseInfo{
		ID: st.id, Tenant: st.tenant.name, Pool: p.name,
		State: "waiting", Used: st.used(), Stream: st.stream, Held: p.escrow.CostOf(slot)[escrow.Tokens], Age: now.Sub(st.since),
	}
	if st.waiter == nil {
		info.State = "running"
		if st.flowing() && st.stream {
			info.State = "streaming"
		}
	}
	return info
}

func (v *tenantView) state(now time.Time) TenantState {
	ts := TenantState{Config: v.cfg, Queued: map[string]int{}}
	for _, o := range v.asMade(now).made() {
		o.state(now, &ts)
	}
	return ts
}

// state adds the limits to their tenant's state.
func (o *ownLimits) state(now time.Time, ts *TenantState) {
	o.advance(now)
	if o.pool == "" {
		ts.Running = o.set.Running()
		ts.Budgets = states(now, o.caps)
	}
	waiting, _ := o.set.InLine()
	ts.InLine += waiting
	for k := range limits.Axis(limits.Axes) {
		if limit := o.set.Limit(k); limit > 0 {
			ts.Limits = append(ts.Limits, LimitState{o.set.Name(k), o.pool, limit, o.set.Used(k)})
		}
	}
}

// Called reports whether a tenant has called since the process began, or a team of it; where limits are shared, also whether they were asked for.
func (g *Governor) Called(tenant string) bool {
	now := g.look()
	v := g.table.look(now, tenant)
	defer g.unlock()
	return v != nil && v.over != nil
}

// Leases counts the calls that run and those that wait, over all pools, even those that no
// configuration has any more.
func (g *Governor) Leases() (running, waiting int) {
	now := g.look()
	defer g.unlock()
	pools := slices.Clone(g.table.gone)
	for _, p := range g.table.inOrder.pools {
		pools = append(pools, p.pool)
	}
	for _, p := range pools {
		s := p.escrow.State(now)
		running += int(s.Running)
		waiting += s.Waiting
	}
	return running, waiting
}

// TenantState copies the books of one tenant, as [Governor.State] does for all. Its cost does not
// grow with the number of tenants. It reports false for an unknown tenant.
func (g *Governor) TenantState(name string) (TenantState, bool) {
	now := g.look()
	defer g.unlock()
	v := g.table.look(now, name)
	if v == nil {
		return TenantState{}, false
	}
	ts := v.state(now)
	for _, p := range v.table.inOrder.pools {
		p.addTo(&ts, now, v.access[p.index].seat)
	}
	return ts, true
}

// Check reports the first mistake in the books of the pools.
func (g *Governor) Check() error {
	g.look()
	defer g.unlock()
	for _, p := range g.table.inOrder.pools {
		if err := p.escrow.Check(); err != nil {
			return fmt.Errorf("governor: pool %s: %w", p.name, err)
		}
	}
	return nil
}
