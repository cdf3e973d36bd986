package gateway

import (
	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/tenants"
)

// tenantView is a tenant or team. Weight is its claim within its parent's share, else within its
// group's, else within the pool, where GroupWeight is its group's claim.
type tenantView struct {
	Name           string         `json:"name"`
	Parent         string         `json:"parent"` // of a team
	Tier           string         `json:"tier"`
	Group          string         `json:"group"`
	Weight         float64        `json:"weight"`
	GroupWeight    float64        `json:"group_weight"` // 0 without a group
	MaxWaitSeconds float64        `json:"max_wait_seconds"`
	Shadow         bool           `json:"shadow"`
	ShadowRefused  int64          `json:"shadow_refused"` // calls that went although the limits would have refused them
	Limits         []axisView     `json:"limits"`
	Running        int64          `json:"running"`
	Waiting        int            `json:"waiting"` // for own limits
	Queued         map[string]int `json:"queued"`  // by pool
	Budgets        []budgetView   `json:"budgets"` // own, then parts of pools'
}

func (g *Gateway) tenantViews() []tenantView {
	out := []tenantView{}
	w := g.world.Load()
	for _, t := range g.gov.State().Tenants {
		known, ok := w.snap.TenantByName(t.Config.Name)
		if !ok {
			continue // a policy is being taken over
		}
		v := tenantView{
			Name: t.Config.Name, Tier: t.Config.Tier, Group: t.Config.Group,
			Weight: inOnes(t.Config.Weight), GroupWeight: inOnes(t.Config.GroupWeight),
			MaxWaitSeconds: t.Config.MaxWait.Seconds(), Shadow: t.Config.Shadow, ShadowRefused: w.shadowRefusals(known),
			Limits: []axisView{}, Running: t.Running, Waiting: t.InLine, Queued: t.Queued,
			Budgets: budgetViews(t.Budgets),
		}
		if known.Parent >= 0 {
			v.Parent = w.snap.Tenants()[known.Parent].Name
		}
		for _, l := range t.Limits {
			v.Limits = append(v.Limits, axisView(l))
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
