package gateway

import (
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/adminapi"
	"github.com/llmgov/llmgov/internal/admission"
)

// The admin side sees the gateway through these methods, and those in explain.go, apply.go and
// crash.go.

// Pool shows a pool, as far as the governor does not know it.
func (g *Gateway) Pool(name string, now time.Time) (adminapi.Pool, bool) {
	p, ok := g.world.Load().poolNamed(name)
	if !ok {
		return adminapi.Pool{}, false
	}
	return adminapi.Pool{
		Name:       p.Name,
		Upstream:   p.UpstreamNames(),
		Models:     p.Models,
		Accounting: string(p.Accounting),
		Failed:     p.Failures.Count(now),
		Upstreams:  p.upstreamViews(now),
	}, true
}

// upstreamViews shows the pool's upstreams.
func (p *poolSide) upstreamViews(now time.Time) []adminapi.Upstream {
	var out []adminapi.Upstream
	for i, m := range p.set.Members {
		s := m.State(now)
		v := adminapi.Upstream{Name: m.Name, Kind: p.upstreams[i].Provider.Kind, Weight: m.Weight, State: "up"}
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

// Counts returns how many calls of a tenant to a pool were refused and how many failed.
func (g *Gateway) Counts(tenant, pool string) (refused, failed int64) {
	w := g.world.Load()
	t, known := w.Snapshot.TenantByName(tenant)
	p, there := w.poolNamed(pool)
	if !known || !there {
		return 0, 0 // a policy is being taken over
	}
	account := w.Account(t.Index, p.Index)
	if account == nil {
		return 0, 0
	}
	return account.Refusals(), account.Failures()
}

// ShadowRefused returns how many calls of a tenant went, in all pools, although its limits would
// have refused them.
func (g *Gateway) ShadowRefused(tenant string) int64 {
	w := g.world.Load()
	t, known := w.Snapshot.TenantByName(tenant)
	if !known {
		return 0
	}
	n := int64(0)
	for i := range w.pools {
		if account := w.Account(t.Index, i); account != nil {
			n += account.ShadowRefusals()
		}
	}
	return n
}

// Refusal shows the answer to a rejection.
func (g *Gateway) Refusal(rej *governor.Rejection) *adminapi.Refusal {
	said := admission.Rejected(rej)
	v := &adminapi.Refusal{
		Status: said.Status, Code: said.Code, Reason: rej.Reason.String(), Of: "pool " + rej.Pool, Axis: admission.AxisOf(rej),
		Limit: rej.Limit, Used: rej.Used, Asked: rej.Asked, RetryAfter: rej.RetryAfter.Seconds(), Kept: rej.Kept, Message: said.Message,
	}
	if rej.Own {
		v.Of = rej.Tenant
	}
	return v
}
