package governor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// Governor admits calls. It is safe for concurrent use.
type Governor struct {
	clock   Clock
	table   atomic.Pointer[table]
	journal Journal       // nil = it forgets
	calls   atomic.Uint64 // the last name of a call in the journal

	drained   chan struct{} // closed by Drain
	drainOnce sync.Once
}

// table is who there is. It is immutable; the state it points to lives on.
type table struct {
	pools   map[string]*pool
	tenants map[string]*tenant
	inOrder struct {
		pools   []*pool
		tenants []*tenant
	}
}

// New returns a Governor for cfg, or all that is wrong with cfg.
func New(cfg Config) (*Governor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	g := &Governor{clock: cfg.Clock, journal: cfg.Journal, drained: make(chan struct{})}
	if g.clock == nil {
		g.clock = SystemClock{}
	}
	now := g.clock.Now()
	if cfg.Past != nil {
		cfg.Past.Cut()
		cfg.Past.Uses.advance(now)
		g.calls.Store(cfg.Past.last)
	}
	g.table.Store(newTable(now, cfg))
	return g, nil
}

func newTable(now time.Time, cfg Config) *table {
	tb := &table{pools: map[string]*pool{}, tenants: map[string]*tenant{}}
	for _, tc := range cfg.Tenants {
		t := newTenant(now, tc, len(tb.inOrder.tenants))
		tb.tenants[tc.Name] = t
		tb.inOrder.tenants = append(tb.inOrder.tenants, t)
	}
	for i, pc := range cfg.Pools {
		p := newPool(pc, i)
		users := 0
		for _, t := range tb.inOrder.tenants {
			if t.cfg.mayUse(pc.Name) {
				users++
			}
		}
		burst := pc.Burst
		if users == 1 {
			burst = escrow.Window
		}
		p.escrow = escrow.New(now, pc.escrow(burst))
		groups := map[string]escrow.NodeID{"": escrow.Root}
		for _, t := range tb.inOrder.tenants {
			leaf := escrow.NodeID(-1)
			if t.cfg.mayUse(pc.Name) {
				group, known := groups[t.cfg.Group]
				if !known {
					group = p.escrow.Add(escrow.Root, escrow.Node{Weight: t.cfg.GroupWeight})
					groups[t.cfg.Group] = group
				}
				leaf = p.escrow.Add(group, escrow.Node{Weight: t.cfg.Weight, Floor: t.cfg.Floor, Credit: t.cfg.Credit})
				t.bound = max(t.bound, pc.MaxQueue)
			}
			t.leaves = append(t.leaves, leaf)
		}
		tb.pools[pc.Name] = p
		tb.inOrder.pools = append(tb.inOrder.pools, p)
	}
	tb.newAccounts(now, cfg)
	if cfg.Past != nil {
		tb.remember(now, cfg.Past)
	}
	return tb
}

// Acquire asks for one call: the tenant's own limits first, then the budgets, then
// the pool's share, all or nothing. It waits for limits and share, in all up to
// the tenant's MaxWait or what the request allows, and not longer than ctx; what a
// budget has no room for is refused at once. The lease it returns
// must be ended by Settle or Release; the first of them counts.
//
// It takes two uncontended locks and no allocation when nobody waits, and two more
// locks where there are budgets or a journal.
func (g *Governor) Acquire(ctx context.Context, req Request) (Lease, *Rejection) {
	tb := g.table.Load()
	t, p := tb.tenants[req.Tenant], tb.pools[req.Pool]
	if t == nil || p == nil || t.leaves[p.index] < 0 {
		return Lease{}, &Rejection{Reason: ReasonUnknown, Tenant: req.Tenant, Pool: req.Pool}
	}
	if g.Draining() {
		return Lease{}, &Rejection{Reason: ReasonDraining, Tenant: req.Tenant, Pool: req.Pool, RetryAfter: drainRetry}
	}
	req.Input, req.Output, req.Price = bounded(req.Input), bounded(req.Output), req.Price.bounded()
	maxWait := t.cfg.MaxWait
	if req.MaxWait != nil {
		maxWait = min(maxWait, *req.MaxWait)
	}

	// 1 The tenant's own limits.
	began := g.clock.Now()
	own, now, rej := g.enter(ctx, t, began, p.ownHoldCost(req), maxWait)
	if rej != nil {
		rej.Pool = req.Pool
		return Lease{}, rej
	}

	waited := now.Sub(began)

	// 2 Budgets, the tenant's here, and the pool's under its lock.
	if g.journal != nil || len(t.caps) > 0 || len(p.shares) > 0 {
		if own.tab, rej = g.openTab(t, p, now, &req); rej != nil {
			t.leave(now, own, ownCost{}, Spend{}, 0)
			rej.Waited = waited
			return Lease{}, rej
		}
	}

	// 3 The pool's share, with what is left of the wait.
	lease, rej := g.acquire(ctx, p, t, now, &req, own, maxWait-waited)
	if rej != nil {
		rej.Waited += waited
		return Lease{}, rej
	}
	lease.Waited += waited
	return lease, nil
}

// openTab holds a call's expected cost of the tenant's budgets.
func (g *Governor) openTab(t *tenant, p *pool, now time.Time, req *Request) (*tab, *Rejection) {
	call := uint64(0)
	if g.journal != nil {
		call = g.calls.Add(1)
	}
	return t.open(now, req, p.expected(t, req), call)
}

// ownHoldCost is the most that a request may take of a tenant's own limits.
func (p *pool) ownHoldCost(req Request) ownCost {
	w := p.cfg.Weights
	return ownCost{
		ownRequests: 1,
		ownTokens:   w.most(req.Input, req.Output),
		ownInput:    w.most(req.Input, 0),
		ownOutput:   w.most(0, req.Output),
	}
}

// ownCost is what a usage takes of a tenant's own limits: weighed like the
// pool's cost, so that both count alike.
func (p *pool) ownCost(u Usage, requests int64) ownCost {
	w := p.cfg.Weights
	return ownCost{
		ownRequests: requests,
		ownTokens:   w.cost(u),
		ownInput:    w.cost(Usage{Input: u.Input, CachedInput: u.CachedInput}),
		ownOutput:   w.cost(Usage{Output: u.Output, Reasoning: u.Reasoning, Audio: u.Audio}),
	}
}

// Drain stops admission: calls that wait are refused, and so is whatever comes
// later. Leases go on until they end.
func (g *Governor) Drain() { g.drainOnce.Do(func() { close(g.drained) }) }

// Draining says whether Drain was called.
func (g *Governor) Draining() bool {
	select {
	case <-g.drained:
		return true
	default:
		return false
	}
}
