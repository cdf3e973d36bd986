package plan

import (
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/decisions"
)

// Of upstreams without limits the log does not say which one served a call, but it says what the call cost. By the same prices it costs
// the same again, and by other prices as much more as the dearest upstream does.
func TestCompare_CostsOfUnnamedUpstreams(t *testing.T) {
	rich := slots(9)
	rich.Tenants[0].Budgets = []governor.Budget{{Unit: governor.UnitMicroUSD, Limit: 15_000, Per: budget.Day}}
	lines := []decisions.Line{started("a", 0, rich)}
	for i := range uint64(5) { // at 2,000 each, where the dearest takes 10,000
		at := time.Duration(i+1) * time.Second
		cost := int64(2_000)
		ask := line(at, decisions.Asked, i+1)
		ask.Ask.Model = "m"
		ask.Ask.Output = 1
		ask.Ask.Price = governor.Price{Output: 10_000_000}
		end := line(at+time.Millisecond, decisions.Ended, i+1)
		end.Usage.Output = 1_000
		end.MicroUSD = &cost
		lines = append(lines, ask, line(at, decisions.Admitted, i+1), end)
	}
	for factor, want := range map[int64]int{1: 0, 2: 1} {
		candidate := candidateOf(rich)
		candidate.Ask = func(r *governor.Request) *decisions.Why {
			r.Price.Output *= factor
			return nil
		}
		candidate.Price = func(*governor.Request, string) governor.Price { return governor.Price{Output: 10_000_000 * factor} }
		r, err := Compare([]Log{logOf(t, "a", lines)}, candidate)
		if err != nil {
			t.Fatal(err)
		}
		if r.NowRefused != want || r.Differ > 0 {
			t.Errorf("at %d times the prices %d of %d calls are refused, want %d", factor, r.NowRefused, r.Calls, want)
		}
	}
}
