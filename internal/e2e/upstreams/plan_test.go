package upstreams

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/decisions"
	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/plan"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// The decision log names the upstream of each call whose pool's upstreams have limits, and what it costs; decided again, everything comes
// out as it was: where calls went, moved and waited, and when a budget in money was spent.
func TestUpstreams_Replayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := harness.Pool(0, 0, 0)
		p.Upstreams = []tenants.PoolUpstream{
			{Name: "ptu", Weight: 1, TPM: 20_000, Concurrency: 3, Price: &tenants.Price{}},
			{Name: "paid", Weight: 1, Order: 1, TPM: 60_000, Concurrency: 4},
			{Name: "other", Weight: 1, Order: 1, TPM: 60_000, Concurrency: 4},
		}
		var who []tenants.Tenant
		for _, name := range []string{"all", "only", "poor"} {
			who = append(who, harness.Tenant(name, 1))
			who[len(who)-1].MaxWait = 20 * time.Second
		}
		who[1].Upstreams = []string{"ptu"}
		who[2].Budgets = []tenants.Budget{{Unit: tenants.MicroUSD, Limit: 20_000, Per: tenants.Day}}
		handlers := map[string]http.Handler{}
		for _, u := range p.Upstreams {
			handlers[u.Name] = harness.NewUpstream(t, mock.Config{ErrorRate: 0.05, FirstToken: 300 * time.Millisecond, TokensPerSecond: 200})
		}
		w := harness.World{
			Pool: p, Tenants: who, Upstreams: handlers,
			Prices: []tenants.ModelPrice{{Model: "*", Price: tenants.Price{Input: 1e6, CachedInput: 1e6, Output: 2e6}}},
		}
		log := w.Record(t)
		s := harness.New(t, w)
		testkit.AtOnce(12, func(i int) {
			r := rand.New(rand.NewPCG(uint64(i), 3))
			for range 20 {
				s.Call(t.Context(), who[i%3].Name, harness.Chat(r.IntN(2) == 0, 100+r.IntN(1500), ""), "x-llmgov-session", fmt.Sprint(r.IntN(5)))
				time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
			}
		})
		record := log.End(s)
		at := map[string]int{}
		outcomes := map[plan.Outcome]int{}
		for _, c := range record.Runs[0].Calls {
			at[c.Upstream]++
			outcomes[c.Decided.Outcome]++
		}
		moved := 0
		for line, err := range decisions.Read(decisions.Files(log.Path)) {
			if err == nil && line.Kind == decisions.Moved {
				moved++
			}
		}
		t.Logf("calls by upstream: %v, %v, %d moved", at, outcomes, moved)
		if at["ptu"] == 0 || at["paid"] == 0 || at["other"] == 0 || at[""] != outcomes[plan.Refused] || moved == 0 {
			t.Errorf("calls by upstream: %v, of %v, %d moved", at, outcomes, moved)
		}
		report := harness.DecidedAgain(t, record, s.Gateway.Snapshot())
		if !report.Exact || len(report.Flips) > 0 {
			t.Errorf("of %d calls %d come out otherwise, and %d by the same policy", report.Calls, report.Differ, len(report.Flips))
		}
	})
}
