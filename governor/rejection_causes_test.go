package governor

import (
	"testing"

	"github.com/llmgov/llmgov/escrow/budget"
)

// The refusal that a shadow would have got by its tenant's own budget names the tenant, as every other's.
func TestRejection_AShadowsOwnBudgetIsItsTenants(t *testing.T) {
	g := must(t, Config{
		Pools: []Pool{{Name: "p", RPM: 600}},
		Tenants: []Tenant{{
			Name: "a", Weight: 1000, Shadow: true,
			Budgets: []Budget{{Unit: UnitRequests, Per: budget.Hour, Limit: 1}},
		}},
	})
	req := Request{Tenant: "a", Pool: "p"}
	first, _ := g.Acquire(t.Context(), req)
	first.Settle(Usage{})
	l, rej := g.Acquire(t.Context(), req)
	if rej != nil || l.Would == nil {
		t.Fatalf("refused: %v, would have been: %v", rej, l.Would)
	}
	if !l.Would.Own || l.Would.Tenant != "a" || l.Would.Reason != ReasonBudget {
		t.Errorf("it would have been refused by %+v", l.Would)
	}
}
