package admin

import (
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

// snapshot is the present state: each pool with its upstreams, and its oldest leases.
func (a *API) snapshot() adminapi.Snapshot {
	snap := a.gateway.Snapshot()
	v := adminapi.Snapshot{
		Version:    a.Version,
		Node:       a.Node,
		Region:     a.Region,
		PolicyHash: snap.Hash(),
		Draining:   a.gateway.Leaving(),
		Tenants:    len(snap.Tenants()),
		Pools:      []adminapi.Pool{},
	}
	if a.Caption != nil {
		v.Caption = a.Caption()
	}
	if a.Policies != nil {
		status := a.Policies.Status()
		v.Policy = &status
	}
	now := time.Now()
	s := a.Governor.State(a.shown(&page{})...)
	for i := range s.Pools {
		p := &s.Pools[i]
		pv, ok := a.gateway.Pool(p.Config.Name, now)
		if !ok {
			continue // a policy is being taken over
		}
		a.addState(&pv, p)
		v.Pools = append(v.Pools, pv)
	}
	v.Process = processView(a.started, now)
	v.Timezone = a.zone.String()
	var notReady error
	if a.Ready != nil {
		notReady = a.Ready()
	}
	more := append(lowerLimits(s.Pools), unfitConditions(snap.Unfit())...)
	if a.Conditions != nil {
		more = append(more, a.Conditions(now)...)
	}
	v.Conditions = conditionsOf(&v, notReady, a.unreadable(), more...)
	return v
}

// addState adds the governor's state of a pool.
func (a *API) addState(v *adminapi.Pool, p *governor.PoolState) {
	v.Limits = limitsOf(p)
	v.Adaptive = adaptiveOf(p)
	v.Running = p.Running
	v.Waiting = p.Waiting
	v.OldestWait = oldestWait(p)
	v.BurstSeconds = p.Config.Burst.Seconds()
	v.Budgets = budgetViews(p.Budgets)
	v.RateRatio = float64(p.Part) / governor.Whole
	v.Fairness = fairnessOf(p, snapshotTop)
	v.LeasesTotal = len(p.Leases)
	v.Leases = oldest(viewsOf(p.Leases), snapshotTop)
	if !p.Held.IsZero() {
		v.RateRatio = 0
		v.HeldUntil = &p.Held
	}
	if a.Sharing != nil {
		v.Sharing = a.Sharing(p.Config.Name)
	}
	for i := range v.Upstreams {
		if a.Engine != nil {
			v.Upstreams[i].Engine = a.Engine(v.Upstreams[i].Name)
		}
	}
	if v.Sharing != nil {
		v.Sharing.Slots = sharingSlots(p)
	}
}

// sharingSlots is the division of a pool's slots; nil if it does not limit concurrent calls.
func sharingSlots(p *governor.PoolState) *adminapi.SharingSlots {
	if p.Slots == 0 {
		return nil
	}
	return &adminapi.SharingSlots{Limit: p.Slots, Used: p.SlotsUsed, GrantHere: p.SlotsHere, UsedHere: p.Running}
}

// adaptiveOf is the range of a pool's adaptive limit; nil if it has none.
func adaptiveOf(p *governor.PoolState) *adminapi.Adaptive {
	if p.Config.Adaptive == adaptive.Fixed {
		return nil
	}
	return &adminapi.Adaptive{Law: p.Config.Adaptive.String(), Min: p.Config.MinConcurrency, Max: p.Config.Concurrency, Room: p.Room}
}

// limitsOf lists a pool's limits: those of a rolling minute, and on concurrent calls.
func limitsOf(p *governor.PoolState) []adminapi.Limit {
	out := []adminapi.Limit{}
	for axis := range escrow.Slots {
		if a := p.Axes[axis]; a.On {
			out = append(out, adminapi.Limit{Axis: axis.String(), Limit: a.Limit, Used: a.Used})
		}
	}
	if p.Slots > 0 {
		out = append(out, adminapi.Limit{Axis: escrow.Slots.String(), Limit: p.Slots, Used: p.SlotsUsed})
	}
	return out
}

// budgetViews shows budgets, with money in dollars.
func budgetViews(list []governor.BudgetState) []adminapi.Budget {
	out := []adminapi.Budget{}
	for _, b := range list {
		out = append(out, adminapi.Budget{
			Name:     b.Name(),
			Unit:     b.Unit.String(),
			Per:      b.Per.String(),
			Pool:     b.Pool,
			Limit:    b.Unit.Amount(b.Limit),
			Used:     b.Unit.Amount(b.Used),
			ResetsAt: b.Resets,
		})
	}
	return out
}

// viewsOf shows leases.
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

// leaseViews shows all leases ordered by id, with those of pools that the policy no longer has.
func leaseViews(s governor.State) []adminapi.Lease {
	out := viewsOf(s.Gone)
	for i := range s.Pools {
		out = append(out, viewsOf(s.Pools[i].Leases)...)
	}
	slices.SortFunc(out, func(a, b adminapi.Lease) int { return strings.Compare(a.ID, b.ID) })
	return out
}
