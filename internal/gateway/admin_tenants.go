package gateway

import (
	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/adminapi"
	"github.com/llmgov/llmgov/tenants"
)

func (g *Gateway) tenantViews() []adminapi.Tenant {
	out := []adminapi.Tenant{}
	w := g.world.Load()
	for _, t := range g.gov.State().Tenants {
		known, ok := w.snap.TenantByName(t.Config.Name)
		if !ok {
			continue // a policy is being taken over
		}
		v := adminapi.Tenant{
			Name: t.Config.Name, Tier: t.Config.Tier, Group: t.Config.Group,
			Weight: inOnes(t.Config.Weight), GroupWeight: inOnes(t.Config.GroupWeight),
			MaxWaitSeconds: t.Config.MaxWait.Seconds(), Shadow: t.Config.Shadow, ShadowRefused: w.shadowRefusals(known),
			Limits: []adminapi.Limit{}, Running: t.Running, Waiting: t.InLine, Queued: t.Queued,
			Budgets: budgetViews(t.Budgets),
		}
		if known.Parent >= 0 {
			v.Parent = w.snap.Tenants()[known.Parent].Name
		}
		for _, l := range t.Limits {
			v.Limits = append(v.Limits, adminapi.Limit(l))
		}
		out = append(out, v)
	}
	return out
}

func inOnes(w escrow.Weight) float64 { return float64(w) / float64(escrow.WeightOne) }

// shadowRefusals is how many calls of a tenant went, in all pools, although its limits would have
// refused them.
func (w *world) shadowRefusals(t *tenants.Tenant) int64 {
	n := int64(0)
	for _, account := range w.accounts[t.Index] {
		if account != nil {
			n += account.ShadowRefusals()
		}
	}
	return n
}
