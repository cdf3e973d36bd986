package governor

import (
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/internal/testkit"
)

// What a postponed call held stays booked for its minute, and no longer. When it is charged, budgets
// take all of it, and limits by the minute what it took beyond what they have booked.
func TestPostpone(t *testing.T) {
	for how, accounting := range map[string]escrow.Accounting{"admit_max": escrow.AdmitMax, "production": escrow.Production, "settle": escrow.Settled} {
		for name, c := range map[string]struct{ took, beyond Usage }{
			"less": {took: Usage{Input: 100, Output: 20}},
			"all":  {took: Usage{Input: 100, Output: 400}},
			"more": {took: Usage{Input: 150, Output: 600}, beyond: Usage{Input: 50, Output: 200}},
		} {
			testkit.Virtual(t, how+"/"+name, func(t *testing.T) {
				perDay := []Budget{{Unit: UnitTokens, Limit: 10_000, Per: budget.Day}}
				g := must(t, Config{
					Pools:   []Pool{{Name: "p", TPM: 6000, Burst: time.Minute, MaxQueue: 10, Accounting: accounting}},
					Tenants: []Tenant{{Name: "a", Weight: 1000, TPM: 5000, Budgets: perDay}},
				})
				time.Sleep(time.Minute)
				used := func() (tokens, spent int64) {
					a, _ := g.TenantState("a")
					return a.Limits[0].Used, a.Budgets[0].Used
				}
				lease, rej := Rejected(g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", Input: 100, Output: 400}))
				if rej != nil {
					t.Fatal(rej)
				}
				if !lease.Postpone() || lease.Postpone() {
					t.Error("it was not postponed once")
				}
				if running, _ := g.Leases(); running != 0 {
					t.Errorf("%d run", running)
				}
				if tokens, spent := used(); tokens != 500 || spent != 0 {
					t.Errorf("postponed, its limit counts %d and its budget %d, want 500 and 0", tokens, spent)
				}
				lease, rej = Rejected(g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", Input: c.took.Input, Output: c.took.Output, Forced: true, Booked: Usage{Input: 100, Output: 400}}))
				if rej != nil || !lease.Charge(c.took) {
					t.Fatal("it was not charged")
				}
				beyond := c.beyond.Input + c.beyond.Output
				if tokens, spent := used(); tokens != 500+beyond || spent != c.took.Input+c.took.Output {
					t.Errorf("charged, its limit counts %d and its budget %d, want %d and %d", tokens, spent, 500+beyond, c.took.Input+c.took.Output)
				}
				time.Sleep(time.Minute + time.Second)
				if tokens, spent := used(); tokens != 0 || spent != c.took.Input+c.took.Output {
					t.Errorf("a minute later, its limit counts %d and its budget %d", tokens, spent)
				}
			})
		}
	}
}
