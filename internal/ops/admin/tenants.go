package admin

import (
	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

// tenants shows tenants and teams.
func (a *API) tenants(p *page) adminapi.TenantList {
	out := []adminapi.Tenant{}
	snap := a.gateway.Snapshot()
	names, total, next := p.of(snap.Tenants())
	for _, t := range a.Governor.State(func(name string) bool { return names[name] }).Tenants {
		known, ok := snap.TenantByName(t.Config.Name)
		if !ok {
			continue // a policy is being taken over
		}
		v := adminapi.Tenant{
			Name: t.Config.Name, Tier: t.Config.Tier, Group: t.Config.Group,
			Weight: float64(t.Config.Weight), GroupWeight: float64(t.Config.GroupWeight),
			MaxWaitSeconds: t.Config.MaxWait.Seconds(), Shadow: t.Config.Shadow, ShadowRefused: a.gateway.ShadowRefused(known.Name),
			Limits: []adminapi.Limit{}, Running: t.Running, Waiting: t.InLine, Queued: t.Queued,
			Budgets: budgetViews(t.Budgets),
		}
		if known.Parent >= 0 {
			v.Parent = snap.Tenants()[known.Parent].Name
		}
		for _, l := range t.Limits {
			v.Limits = append(v.Limits, adminapi.Limit(l))
		}
		out = append(out, v)
	}
	return adminapi.TenantList{Tenants: out, Total: total, Next: next}
}
