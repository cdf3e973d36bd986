package governor

import (
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

// Standing reports the strictest limit of each axis, of the tenant's own and
// the pool's. Without a pool's name it reports the tenant's own.
func (g *Governor) Standing(tenant, pool string) Standing {
	var st Standing
	tb, now := g.table.Load(), g.clock.Now()
	if p := tb.pools[pool]; p != nil {
		p.mu.Lock()
		s := p.escrow.State(now)
		p.mu.Unlock()
		tokens, requests := s.Axes[escrow.Tokens], s.Axes[escrow.Requests]
		st.Tokens.tighten(tokens.Limit, tokens.Used, tokens.FullAt.Sub(now))
		st.Requests.tighten(requests.Limit, requests.Used, requests.FullAt.Sub(now))
		st.Concurrent.tighten(s.Slots, s.Running, 0)
	}
	t := tb.tenants[tenant]
	if t == nil {
		return st
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advanceLocked(now)
	for k, q := range [ownAxes]*Quota{&st.Requests, &st.Tokens, &st.Tokens, &st.Tokens} {
		if l := t.ledgers[k]; l != nil {
			q.tighten(l.Limit(), l.Used(), l.FullAt().Sub(now))
		}
	}
	st.Concurrent.tighten(t.cfg.Concurrency, t.running, 0)
	return st
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
	Leases []LeaseInfo
}

// LeaseInfo describes one lease, or a call that waits for one.
type LeaseInfo struct {
	ID, Tenant, Pool string
	// State is waiting, running (admitted, nothing produced yet) or streaming.
	State      string
	Age        time.Duration // since the dispatch
	Held, Used int64         // tokens
	Stream     bool
}

// TenantState is a copy of a tenant's own limits.
type TenantState struct {
	Config  Tenant
	Limits  []LimitState
	Running int64
	// InLine is how many calls wait for the tenant's own limits; Queued how many
	// wait in each pool that the tenant may use, by name.
	InLine int
	Queued map[string]int
}

// LimitState is one own limit of a tenant.
type LimitState struct {
	Axis        string
	Limit, Used int64
}

// State is a copy of everything, for the admin API and the metrics.
type State struct {
	Pools   []PoolState
	Tenants []TenantState
}

// State copies the books. Each pool and tenant is consistent in itself.
func (g *Governor) State() State {
	tb := g.table.Load()
	now := g.clock.Now()
	var s State
	queued := make([]map[string]int, len(tb.inOrder.tenants))
	for i := range queued {
		queued[i] = map[string]int{}
	}
	for _, p := range tb.inOrder.pools {
		s.Pools = append(s.Pools, p.state(now, tb, queued))
	}
	for i, t := range tb.inOrder.tenants {
		ts := t.state(now)
		ts.Queued = queued[i]
		s.Tenants = append(s.Tenants, ts)
	}
	return s
}

func (p *pool) state(now time.Time, tb *table, queued []map[string]int) PoolState {
	p.mu.Lock()
	defer p.mu.Unlock()
	ps := PoolState{Config: p.cfg, State: p.escrow.State(now)}
	for slot := range p.leases {
		if st := &p.leases[slot]; st.tenant != nil {
			ps.Leases = append(ps.Leases, p.infoLocked(now, slot, st))
		}
	}
	for i, t := range tb.inOrder.tenants {
		if leaf := t.leaves[p.index]; leaf >= 0 {
			queued[i][p.cfg.Name] = p.escrow.Node(leaf).Queued
		}
	}
	return ps
}

func (p *pool) infoLocked(now time.Time, slot int, st *leaseState) LeaseInfo {
	info := LeaseInfo{
		ID: st.id, Tenant: st.tenant.cfg.Name, Pool: p.cfg.Name,
		State: "waiting", Used: st.used(), Stream: st.stream, Held: p.escrow.CostOf(slot)[escrow.Tokens],
	}
	if st.waiter == nil {
		info.State, info.Age = "running", now.Sub(st.since)
		if st.flowing && st.stream {
			info.State = "streaming"
		}
	}
	return info
}

func (t *tenant) state(now time.Time) TenantState {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advanceLocked(now)
	ts := TenantState{Config: t.cfg, Running: t.running, InLine: len(t.line)}
	for k, l := range t.ledgers {
		if l != nil {
			ts.Limits = append(ts.Limits, LimitState{Axis: ownAxisName[k], Limit: l.Limit(), Used: l.Used()})
		}
	}
	if t.cfg.Concurrency > 0 {
		ts.Limits = append(ts.Limits, LimitState{Axis: axisConcurrency, Limit: t.cfg.Concurrency, Used: t.running})
	}
	return ts
}

// Leases counts what is held: calls that run, and calls that wait, over all
// pools.
func (g *Governor) Leases() (running, waiting int) {
	for _, p := range g.table.Load().inOrder.pools {
		p.mu.Lock()
		s := p.escrow.State(g.clock.Now())
		p.mu.Unlock()
		running += int(s.Running)
		waiting += s.Waiting
	}
	return running, waiting
}
