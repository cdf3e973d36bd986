package governor

import (
	"fmt"
	"testing"
	"time"

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
	l, rej := Rejected(g.Acquire(t.Context(), req))
	if rej != nil || l.Would == nil {
		t.Fatalf("refused: %v, would have been: %v", rej, l.Would)
	}
	if !l.Would.Own || l.Would.Tenant != "a" || l.Would.Reason != ReasonBudget {
		t.Errorf("it would have been refused by %+v", l.Would)
	}
}

// TestRejection_Spread: calls that an outage refuses in one moment come back over a second, each at its own time, and soon. No other
// refusal changes.
func TestRejection_Spread(t *testing.T) {
	for _, c := range []struct {
		rej         *Rejection
		least, most time.Duration
		spread      bool
	}{
		{rejectLost("a"), 500 * time.Millisecond, 1500 * time.Millisecond, true},
		{&Rejection{Reason: ReasonStoreLost, RetryAfter: 40 * time.Second}, 40 * time.Second, 41 * time.Second, true},
		{rejectDraining("a"), drainRetry, drainRetry, false},
	} {
		promised := c.rej.RetryAfter
		tenths := map[int64]int{}
		for i := range 1000 {
			name := fmt.Sprint("req-", i)
			got := c.rej.Spread(name).RetryAfter
			if got < c.least || got > c.most || got != c.rej.Spread(name).RetryAfter {
				t.Fatalf("%v: %s comes back after %v", c.rej.Reason, name, got)
			}
			tenths[got.Milliseconds()/100]++
		}
		for tenth, n := range tenths {
			if c.spread && n > 200 {
				t.Errorf("%v: %d of 1000 come back after %d00 ms", c.rej.Reason, n, tenth)
			}
		}
		if c.rej.RetryAfter != promised {
			t.Errorf("%v: what observers know has changed", c.rej.Reason)
		}
	}
}
