package admin

import (
	"github.com/llmgov/llmgov/governor"
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
			Running: t.Running, Waiting: t.InLine, Queued: t.Queued,
			Budgets: budgetViews(t.Budgets),
		}
		if known.Parent >= 0 {
			v.Parent = snap.Tenants()[known.Parent].Name
		}
		v.Limits = ownLimits(t.Limits)
		if p.tenant == known.Name && known.Members != nil {
			v.Members = a.members(known.Name)
		}
		out = append(out, v)
	}
	return adminapi.TenantList{Tenants: out, Total: total, Next: next}
}

// heaviest is how many members of a tenant are shown.
const heaviest = 10

// members shows those of a tenant.
func (a *API) members(tenant string) *adminapi.Members {
	list, total := a.Governor.Heaviest(tenant, heaviest)
	v := &adminapi.Members{Total: total, Heaviest: []adminapi.Member{}}
	for _, m := range list {
		s, known := a.Governor.TenantState(m.Name)
		if !known {
			continue // a policy is being taken over
		}
		v.Heaviest = append(v.Heaviest, adminapi.Member{Name: m.Called, Tokens: m.Tokens, Running: s.Running, Waiting: s.InLine, Limits: ownLimits(s.Limits), Budgets: budgetViews(s.Budgets)})
	}
	return v
}

func ownLimits(list []governor.LimitState) []adminapi.Limit {
	out := []adminapi.Limit{}
	for _, l := range list {
		out = append(out, adminapi.Limit(l))
	}
	return out
}
