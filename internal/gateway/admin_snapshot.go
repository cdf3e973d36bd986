package gateway

import (
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/adminapi"
)

// GET /api/v1/snapshot: how each pool stands, its upstreams, and its oldest leases.

// upstreamViews shows the pool's upstreams.
func (p *poolSide) upstreamViews(now time.Time) []adminapi.Upstream {
	var out []adminapi.Upstream
	for i, m := range p.set.Members {
		s := m.State(now)
		v := adminapi.Upstream{Name: m.Name, Kind: p.upstreams[i].kind, Weight: m.Weight, State: "up"}
		switch {
		case s.Busy:
			v.State = "busy"
		case s.Probing:
			v.State = "probing"
		case !s.Up:
			v.State = "open"
		}
		if s.Retry.After(now) && !s.Probing {
			v.Until = &s.Retry
		}
		if !s.Since.IsZero() {
			v.Since = &s.Since
		}
		if s.Tokens > 0 {
			v.TPM = &s.Tokens
		}
		if s.Requests > 0 {
			v.RPM = &s.Requests
		}
		out = append(out, v)
	}
	return out
}

func adaptiveOf(p *governor.Pool) *adminapi.Adaptive {
	if p.Adaptive == adaptive.Fixed {
		return nil
	}
	return &adminapi.Adaptive{Law: p.Adaptive.String(), Min: p.MinConcurrency, Max: p.Concurrency}
}

func (g *Gateway) snapshotView(opt AdminOptions) adminapi.Snapshot {
	w := g.world.Load()
	v := adminapi.Snapshot{
		Version: opt.Version, Node: opt.Node, Region: opt.Region,
		PolicyHash: w.snap.Hash(), Draining: g.gov.Draining(), Tenants: len(w.snap.Tenants()), Pools: []adminapi.Pool{},
	}
	if opt.Policies != nil {
		status := opt.Policies.Status()
		v.Policy = &status
	}
	now := time.Now()
	s := g.gov.State()
	for i := range s.Pools {
		p := &s.Pools[i]
		t, ok := w.poolNamed(p.Config.Name)
		if !ok {
			continue // a policy is being taken over
		}
		pv := adminapi.Pool{
			Name: p.Config.Name, Upstream: t.UpstreamNames(), Models: t.Models, Accounting: string(t.Accounting),
			Limits: limitsOf(p), Failed: t.failures.Count(now), Adaptive: adaptiveOf(&p.Config), Running: p.Running, Waiting: p.Waiting, OldestWait: oldestWait(p), BurstSeconds: p.Config.Burst.Seconds(),
			Budgets: budgetViews(p.Budgets), Upstreams: t.upstreamViews(now), RateRatio: float64(p.Part) / governor.Whole,
			Fairness: fairnessOf(p, snapshotTop), LeasesTotal: len(p.Leases), Leases: oldest(viewsOf(p.Leases), snapshotTop),
		}
		if !p.Held.IsZero() {
			pv.RateRatio, pv.HeldUntil = 0, &p.Held
		}
		if opt.Sharing != nil {
			pv.Sharing = opt.Sharing(p.Config.Name)
		}
		if pv.Sharing != nil {
			pv.Sharing.Slots = sharingSlots(p)
		}
		v.Pools = append(v.Pools, pv)
	}
	v.Process = processView(g.started, now)
	v.Timezone = g.zone.String()
	var notReady error
	if opt.Ready != nil {
		notReady = opt.Ready()
	}
	v.Conditions = conditionsOf(&v, notReady)
	return v
}

// sharingSlots tells how a pool's slots are divided; nil if it does not limit concurrent calls.
func sharingSlots(p *governor.PoolState) *adminapi.SharingSlots {
	if p.Slots == 0 {
		return nil
	}
	return &adminapi.SharingSlots{Limit: p.Slots, Used: p.SlotsUsed, GrantHere: p.SlotsHere, UsedHere: p.Running}
}

// limitsOf lists a pool's limits: on tokens, requests and concurrent calls.
func limitsOf(p *governor.PoolState) []adminapi.Limit {
	out := []adminapi.Limit{}
	for _, axis := range []escrow.Axis{escrow.Tokens, escrow.Requests} {
		if a := p.Axes[axis]; a.On {
			out = append(out, adminapi.Limit{Axis: axis.String(), Limit: a.Limit, Used: a.Used})
		}
	}
	if p.Slots > 0 {
		out = append(out, adminapi.Limit{Axis: escrow.Slots.String(), Limit: p.Slots, Used: p.SlotsUsed})
	}
	return out
}

func budgetViews(list []governor.BudgetState) []adminapi.Budget {
	out := []adminapi.Budget{}
	for _, b := range list {
		one := 1.0
		if b.Unit == governor.UnitMicroUSD {
			one = float64(budget.USD)
		}
		out = append(out, adminapi.Budget{
			Name: b.Name(), Unit: b.Unit.String(), Per: b.Per.String(), Pool: b.Pool,
			Limit: float64(b.Limit) / one, Used: float64(b.Used) / one, ResetsAt: b.Resets,
		})
	}
	return out
}

func viewsOf(list []governor.LeaseInfo) []adminapi.Lease {
	out := make([]adminapi.Lease, 0, len(list))
	for _, l := range list {
		out = append(out, adminapi.Lease{
			ID:         l.ID,
			Tenant:     l.Tenant,
			Pool:       l.Pool,
			State:      l.State,
			AgeSeconds: l.Age.Seconds(),
			HeldTokens: l.Held,
			UsedTokens: l.Used,
			Stream:     l.Stream,
		})
	}
	return out
}

func leaseViews(s governor.State) []adminapi.Lease {
	out := viewsOf(s.Gone)
	for i := range s.Pools {
		out = append(out, viewsOf(s.Pools[i].Leases)...)
	}
	slices.SortFunc(out, func(a, b adminapi.Lease) int { return strings.Compare(a.ID, b.ID) })
	return out
}
