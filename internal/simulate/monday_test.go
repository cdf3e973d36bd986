package simulate

import (
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/simulate/scenario"
)

// TestMonday_PromisesInSmallPools: four minutes of the scenario, with its cold start. TestGoals has all of it.
func TestMonday_PromisesInSmallPools(t *testing.T) {
	for name, worst := range map[string]Value{"monday": 0.03, "monday-3m": 0.015, "monday-60k": 0.13} {
		s, err := scenario.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		s.Duration = 4 * time.Minute
		res, err := Run(t.Context(), s, Options{Seeds: []uint64{1}})
		if err != nil {
			t.Fatal(err)
		}
		f := res.Figures
		if f.PromiseKept < 0.94 || f.Misallocation > worst {
			t.Errorf("%s: %.3f of promises are kept and %.3f is misallocated", name, f.PromiseKept, f.Misallocation)
		}
		for _, x := range res.Tenants {
			if x.Name == "search" && x.Received < 0.9*x.Entitled {
				t.Errorf("%s: search got %.3f of the pool, and is entitled to %.3f", name, x.Received, x.Entitled)
			}
		}
	}
}
