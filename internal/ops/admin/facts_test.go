package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/terms"
)

// TestBudgetFacts: each step of a budget is a fact of its period.
func TestBudgetFacts(t *testing.T) {
	resets := time.Date(2027, 4, 1, 0, 0, 0, 0, time.UTC)
	b := governor.BudgetState{Budget: governor.Budget{Unit: governor.UnitMicroUSD, Limit: 500_000_000, Per: terms.Month}, Resets: resets}
	keys := map[string]bool{}
	for used, want := range map[int64]int{0: 0, 399_999_999: 0, 400_000_000: 1, 499_999_999: 1, 500_000_000: 2, 900_000_000: 2} {
		b.Used = used
		list := budgetFacts("tenant", "acme", &b)
		if len(list) != want {
			t.Errorf("%d used: %v", used, list)
		}
		for _, f := range list {
			keys[f.Key] = true
			if !f.Once.Equal(resets) || f.Tenant != "acme" || f.On != "budget" {
				t.Errorf("got %+v", f)
			}
		}
	}
	b.Used = b.Limit
	b.Resets = resets.AddDate(0, 1, 0)
	for _, f := range budgetFacts("tenant", "acme", &b) {
		keys[f.Key] = true
	}
	b.Limit /= 2
	for _, f := range budgetFacts("tenant", "acme", &b) {
		keys[f.Key] = true
	}
	b.Limit *= 2
	if len(keys) != 6 {
		t.Errorf("two steps in two periods, and of another limit, have the keys %v", keys)
	}
	b.Used = 400_000_000
	const want = "Tenant acme has used 80 % of its budget of 500 usd per month. It resets at 2027-05-01T00:00:00Z."
	if f := budgetFacts("tenant", "acme", &b)[0]; f.Message != want {
		t.Errorf("it says %q, want %q", f.Message, want)
	}
	b.Held = 1
	if list := budgetFacts("tenant", "acme", &b); len(list) != 0 {
		t.Errorf("what is held counts: %+v", list)
	}
	b.WarnAt = [terms.MaxWarnings]int64{90, 50}
	if list := budgetFacts("tenant", "acme", &b); len(list) != 1 || !strings.Contains(list[0].Message, " 50 % ") {
		t.Errorf("by warn_at: %+v", list)
	}
}
