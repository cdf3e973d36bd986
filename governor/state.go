package governor

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// Quota is one axis as a caller sees it: the strictest of the limits that apply
// to it.
type Quota struct {
	Limit, Remaining int64
	// Reset is how long it takes until all of it is free again.
	Reset time.Duration
}

// Standing is where a tenant stands in a pool. An axis without a limit has a
// Limit of 0.
type Standing struct{ Requests, Tokens, Concurrent Quota }

// Standing reports the strictest limit of each axis: of the tenant, of what it is a
// team of, and of the pool. Without a pool's name it reports those over all pools.
func (g *Governor) Standing(tenant, pool string) Standing {
	var st Standing
	tb, now := g.table.Load(), g.clock.Now()
	p, v := tb.pools[pool], tb.tenants[tenant]
	if p != nil {
		p.mu.Lock()
		p.expireLocked(now)
		s := p.escrow.State(now)
		slots, running := p.slotsLocked()
		p.mu.Unlock()
		tokens, requests := s.Axes[escrow.Tokens], s.Axes[escrow.Requests]
		st.Tokens.tighten(tokens.Limit, tokens.Used, tokens.FullAt.Sub(now))
		st.Requests.tighten(requests.Limit, requests.Used, requests.FullAt.Sub(now))
		st.Concurrent.tighten(slots, running, 0)
	}
	if v == nil {
		return st
	}
	if p != nil && v.access[p.index].chain != nil {
		for _, k := range v.access[p.index].chain {
			k.q.tighten(now, &st)
		}
		return st
	}
	for ; v != nil; v = v.parent {
		v.over.tighten(now, &st)
	}
	return st
}

// tighten takes over a quota's limits where they leave less.
func (q *quota) tighten(now time.Time, st *Standing) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advanceLocked(now)
	for k, quota := range [ownAxes]*Quota{&st.Requests, &st.Tokens, &st.Tokens, &st.Tokens} {
		if l := q.ledgers[k]; l != nil {
			quota.tighten(q.limits[k], q.usedLocked(k), l.FullAt().Sub(now))
		}
	}
	st.Concurrent.tighten(q.concurrency, q.usedLocked(ownAxes), 0)
}

// tighten takes over another limit where it leaves less.
func (q *Quota) tighten(limit, used int64, reset time.Duration) {
	if limit <= 0 {
		return
	}
	if left := max(0, limit-used); q.Limit == 0 || left < q.Remaining {
		*q = Quota{Limit: limit, Remaining: left, Reset: max(0, reset)}
	}
}

// PoolState is a copy of a pool's books.
type PoolState struct {
	Config Pool
	escrow.State
	TicketsDue int // of Tickets
	Leases     []LeaseInfo
	Budgets    []BudgetState
	// Cuts are those in force; see Governor.Throttle.
	Cuts []Cut
	// SlotsUsed are the calls that run in all processes, of which State.Slots may.
	SlotsUsed int64
	// Degraded is the failure mode in force where limits are shared (Governor.Degraded),
	// and Grant how many tokens may still be handed out, until the allowance expires.
	Degraded string
	Grant    int64
	// Shares are of all tenants that may use it; Jain and Deviation say how fairly it was
	// shared in the last minute (see fairness.Figures), and Unused how many tokens it could
	// have handed out so far while calls waited for them.
	Shares          []TenantShare
	Jain, Deviation float64
	Unused          int64
}

// LeaseInfo describes one lease, or a call that waits for one.
type LeaseInfo struct {
	ID, Tenant, Pool string
	// State is waiting, running (admitted, nothing produced yet) or streaming.
	State      string
	Age        time.Duration // since the dispatch, or, while it waits, since it came
	Held, Used int64         // tokens
	Stream     bool
}

// TenantState is a copy of a tenant's own limits and budgets.
type TenantState struct {
	Config  Tenant
	Limits  []LimitState
	Running int64
	// InLine is how many calls wait for the tenant's own limits; Queued how many
	// wait in each pool that the tenant may use, by name.
	InLine int
	Queued map[string]int
	// Budgets are the tenant's own, and then its parts of its pools' budgets.
	Budgets []BudgetState
}

// BudgetState is one budget in its present period.
type BudgetState struct {
	Budget
	// Pool names the pool whose budget this is a tenant's part of: Used is then the
	// tenant's, and Limit what all have. It is empty for a budget as a whole.
	Pool string
	// Used is what is settled, and held by calls in flight.
	Used   int64
	Resets time.Time
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
	// Gone is what runs and waits in pools that the configuration has no more.
	Gone []LeaseInfo
}

// State copies the books. Each pool and tenant is consistent in itself.
func (g *Governor) State() State {
	g.look()
	tb := g.table.Load()
	now := g.clock.Now()
	var s State
	for _, t := range tb.inOrder.tenants {
		s.Tenants = append(s.Tenants, t.state(now))
	}
	for _, p := range tb.inOrder.pools {
		s.Pools = append(s.Pools, p.state(now, tb, s.Tenants))
	}
	for _, p := range tb.gone {
		p.mu.Lock()
		s.Gone = append(s.Gone, p.leasesLocked(now)...)
		p.mu.Unlock()
	}
	return s
}

// state copies a pool's books, and puts what they have of each tenant to the
// tenant's.
func (p *poolView) state(now time.Time, tb *table, tenants []TenantState) PoolState {
	figures, view := p.measure.figures()
	p.mu.Lock()
	defer p.mu.Unlock()
	ps := PoolState{Config: p.cfg, State: p.escrow.State(now), TicketsDue: p.escrow.TicketsDue(), Budgets: states(now, p.shares)}
	p.expireLocked(now)
	ps.Slots, ps.SlotsUsed = p.slotsLocked()
	ps.Leases, ps.Cuts = p.leasesLocked(now), slices.Clone(p.cuts)
	if p.set.Shared {
		ps.Degraded, ps.Grant = p.degradedLocked(now), p.grantLocked(now)
	}
	ps.Jain, ps.Deviation, ps.Unused = figures.Jain, figures.Deviation, p.escrow.Unused(now)
	ps.Shares = p.sharesLocked(now, tb, figures, view)
	for i, v := range tb.inOrder.tenants {
		p.addToLocked(&tenants[i], now, v.access[p.index].seat)
	}
	return ps
}

// addToLocked puts what the pool's books have of a tenant to the tenant's.
func (p *poolView) addToLocked(ts *TenantState, now time.Time, st *seat) {
	if st == nil || st.gone {
		return
	}
	ts.Queued[p.name] = p.escrow.Node(st.leaf).Queued
	for i, a := range p.shares {
		a.advance(now)
		ts.Budgets = append(ts.Budgets, BudgetState{
			Budget: a.Budget, Pool: p.name, Used: a.split.UsedBy(now, st.members[i]) * a.scale, Resets: a.ends,
		})
	}
}

// leasesLocked lists what runs and waits, of those too who are gone.
func (p *pool) leasesLocked(now time.Time) []LeaseInfo {
	var out []LeaseInfo
	for slot := range p.leases {
		if st := &p.leases[slot]; st.tenant != nil {
			out = append(out, p.infoLocked(now, slot, st))
		}
	}
	return out
}

func states(now time.Time, accounts []*account) []BudgetState {
	var out []BudgetState
	for _, a := range accounts {
		used := a.usedByAll(now) * a.scale
		a.advance(now)
		out = append(out, BudgetState{Budget: a.Budget, Used: used, Resets: a.ends})
	}
	return out
}

func (p *pool) infoLocked(now time.Time, slot int, st *leaseState) LeaseInfo {
	info := LeaseInfo{
		ID: st.id, Tenant: st.tenant.name, Pool: p.name,
		State: "waiting", Used: st.used(), Stream: st.stream, Held: p.escrow.CostOf(slot)[escrow.Tokens], Age: now.Sub(st.since),
	}
	if st.waiter == nil {
		info.State = "running"
		if st.flowing && st.stream {
			info.State = "streaming"
		}
	}
	return info
}

func (v *tenantView) state(now time.Time) TenantState {
	ts := TenantState{Config: v.cfg, Queued: map[string]int{}}
	v.over.state(now, &ts)
	for i := range v.access {
		for _, k := range v.access[i].chain {
			if k.q.owner == v.name && k.q.pool != "" {
				k.q.state(now, &ts)
			}
		}
	}
	return ts
}

// state adds what a quota has to its tenant's.
func (q *quota) state(now time.Time, ts *TenantState) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advanceLocked(now)
	if q.pool == "" {
		ts.Running = q.running
		ts.Budgets = states(now, q.caps)
	}
	ts.InLine += len(q.line.calls)
	for k, l := range q.ledgers {
		if l != nil {
			ts.Limits = append(ts.Limits, LimitState{ownAxisName[k], q.pool, q.limits[k], q.usedLocked(k)})
		}
	}
	if q.concurrency > 0 {
		ts.Limits = append(ts.Limits, LimitState{axisConcurrency, q.pool, q.concurrency, q.usedLocked(ownAxes)})
	}
}

// Leases counts what is held: calls that run, and calls that wait, over all
// pools, those included that the configuration has no more.
func (g *Governor) Leases() (running, waiting int) {
	tb := g.table.Load()
	pools := slices.Clone(tb.gone)
	for _, p := range tb.inOrder.pools {
		pools = append(pools, p.pool)
	}
	for _, p := range pools {
		p.mu.Lock()
		s := p.escrow.State(g.clock.Now())
		p.mu.Unlock()
		running += int(s.Running)
		waiting += s.Waiting
	}
	return running, waiting
}

// TenantState copies the books of one tenant, as [Governor.State] has them. Its cost
// does not grow with the number of tenants.
func (g *Governor) TenantState(name string) (TenantState, bool) {
	g.look()
	tb, now := g.table.Load(), g.clock.Now()
	v := tb.tenants[name]
	if v == nil {
		return TenantState{}, false
	}
	ts := v.state(now)
	for _, p := range tb.inOrder.pools {
		p.mu.Lock()
		p.addToLocked(&ts, now, v.access[p.index].seat)
		p.mu.Unlock()
	}
	return ts, true
}
