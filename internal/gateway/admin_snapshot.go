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

type snapshotView struct {
	Version    string     `json:"version"`
	Node       string     `json:"node"`
	Region     string     `json:"region"`
	PolicyHash string     `json:"policy_hash"`
	Draining   bool       `json:"draining"`
	Tenants    int        `json:"tenants"`
	Pools      []poolView `json:"pools"`

	Policy *PolicyStatus `json:"policy,omitempty"`

	// Conditions are all that is not as it should be, errors first.
	Conditions []adminapi.Condition `json:"conditions"`
	Process    adminapi.Process     `json:"process"`
	// Timezone is that of budgets.
	Timezone string `json:"timezone"`
}

type poolView struct {
	Name       string     `json:"name"`
	Upstream   string     `json:"upstream"`
	Models     []string   `json:"models"`
	Accounting string     `json:"accounting"`
	Limits     []axisView `json:"limits"`
	// Adaptive is set if the limit on calls at once moves. Where it is now stands in Limits.
	Adaptive *adaptiveView `json:"adaptive,omitempty"`
	Running  int64         `json:"running"`
	Waiting  int           `json:"waiting"`
	// Failed is how many admitted calls failed in the last minute.
	Failed       int64   `json:"failed_last_minute"`
	OldestWait   float64 `json:"oldest_wait_seconds"`
	BurstSeconds float64 `json:"burst_seconds"`
	// RateRatio is the part of the rate that is handed out. HeldUntil is until when nothing is
	// handed out, because upstreams are missing or have asked for a pause.
	RateRatio float64        `json:"rate_ratio"`
	HeldUntil *time.Time     `json:"held_until"`
	Upstreams []upstreamView `json:"upstreams"`

	Budgets []budgetView `json:"budgets"`
	Sharing *Sharing     `json:"sharing,omitempty"`

	// Fairness lists the tenants that ask for most, and Leases the oldest leases.
	Fairness    fairnessView `json:"fairness"`
	LeasesTotal int          `json:"leases_total"`
	Leases      []leaseView  `json:"leases"`
}

// upstreamView is what the gateway believes about one of a pool's upstreams.
type upstreamView struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Weight int64  `json:"weight"`
	// State is up, busy (it asked for a pause), open (it fails, and gets no calls) or probing (the
	// next call will tell whether it works again).
	State string     `json:"state"`
	Until *time.Time `json:"until"`
	// Since is when it began to fail; null while it is up or busy.
	Since *time.Time `json:"down_since"`
	// TPM and RPM are the limits that it declared of late; null if it did not.
	TPM *int64 `json:"declared_tpm"`
	RPM *int64 `json:"declared_rpm"`
}

// upstreamViews shows the pool's upstreams.
func (p *poolSide) upstreamViews(now time.Time) []upstreamView {
	var out []upstreamView
	for i, m := range p.set.Members {
		s := m.State(now)
		v := upstreamView{Name: m.Name, Kind: p.upstreams[i].kind, Weight: m.Weight, State: "up"}
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

// budgetView is one budget, or a tenant's part of a pool's; money is in dollars.
type budgetView struct {
	Name     string    `json:"name"`
	Unit     string    `json:"unit"`
	Per      string    `json:"per"`
	Pool     string    `json:"pool,omitempty"`
	Limit    float64   `json:"limit"`
	Used     float64   `json:"used"`
	ResetsAt time.Time `json:"resets_at"`
}

// adaptiveView is the range in which a limit on calls at once moves.
type adaptiveView struct {
	Law string `json:"law"`
	Min int64  `json:"min"`
	Max int64  `json:"max"`
}

func adaptiveOf(p *governor.Pool) *adaptiveView {
	if p.Adaptive == adaptive.Fixed {
		return nil
	}
	return &adaptiveView{p.Adaptive.String(), p.MinConcurrency, p.Concurrency}
}

// axisView is one limit. Headroom is taken off a pool's rolling limits. Pool is set for a tenant's
// limits in one pool.
type axisView struct {
	Axis  string `json:"axis"`
	Pool  string `json:"pool,omitempty"`
	Limit int64  `json:"limit"`
	Used  int64  `json:"used"`
}

type leaseView struct {
	ID         string  `json:"id"`
	Tenant     string  `json:"tenant"`
	Pool       string  `json:"pool"`
	State      string  `json:"state"`
	AgeSeconds float64 `json:"age_seconds"`
	HeldTokens int64   `json:"held_tokens"`
	UsedTokens int64   `json:"used_tokens"`
	Stream     bool    `json:"stream"`
}

func (g *Gateway) snapshotView(opt AdminOptions) snapshotView {
	w := g.world.Load()
	v := snapshotView{
		Version: opt.Version, Node: opt.Node, Region: opt.Region,
		PolicyHash: w.snap.Hash(), Draining: g.gov.Draining(), Tenants: len(w.snap.Tenants()), Pools: []poolView{},
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
		pv := poolView{
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
			pv.Sharing.divide(p)
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

// limitsOf lists a pool's limits: on tokens, requests and concurrent calls.
func limitsOf(p *governor.PoolState) []axisView {
	out := []axisView{}
	for _, axis := range []escrow.Axis{escrow.Tokens, escrow.Requests} {
		if a := p.Axes[axis]; a.On {
			out = append(out, axisView{Axis: axis.String(), Limit: a.Limit, Used: a.Used})
		}
	}
	if p.Slots > 0 {
		out = append(out, axisView{Axis: escrow.Slots.String(), Limit: p.Slots, Used: p.SlotsUsed})
	}
	return out
}

func budgetViews(list []governor.BudgetState) []budgetView {
	out := []budgetView{}
	for _, b := range list {
		one := 1.0
		if b.Unit == governor.UnitMicroUSD {
			one = float64(budget.USD)
		}
		out = append(out, budgetView{
			Name: b.Name(), Unit: b.Unit.String(), Per: b.Per.String(), Pool: b.Pool,
			Limit: float64(b.Limit) / one, Used: float64(b.Used) / one, ResetsAt: b.Resets,
		})
	}
	return out
}

func viewsOf(list []governor.LeaseInfo) []leaseView {
	out := make([]leaseView, 0, len(list))
	for _, l := range list {
		out = append(out, leaseView{l.ID, l.Tenant, l.Pool, l.State, l.Age.Seconds(), l.Held, l.Used, l.Stream})
	}
	return out
}

func leaseViews(s governor.State) []leaseView {
	out := viewsOf(s.Gone)
	for i := range s.Pools {
		out = append(out, viewsOf(s.Pools[i].Leases)...)
	}
	slices.SortFunc(out, func(a, b leaseView) int { return strings.Compare(a.ID, b.ID) })
	return out
}
