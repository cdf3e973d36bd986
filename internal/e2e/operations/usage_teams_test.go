package operations

import (
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/tenants"
)

// limit is one of usage's, with what is left of it.
func limit(axis string, limit, used int64) map[string]any {
	return map[string]any{"axis": axis, "limit": float64(limit), "used": float64(used), "remaining": float64(limit - used)}
}

// A team sees its own limits, over all and in single pools, each where it belongs, and
// those of who is above it, with what all teams there use together; not its siblings.
func TestUsage_Teams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acme := harness.Tenant("acme", 1)
		search := harness.Tenant("acme/search", 3)
		batch := harness.Tenant("acme/batch", 1)
		eu := harness.Tenant("acme/search/eu", 1)
		acme.RPM = 10
		acme.Pools = []tenants.PoolLimits{{Pool: "p", TPM: 8000, Concurrency: 9}}
		acme.Budgets = []tenants.Budget{{Unit: tenants.Requests, Limit: 40, Per: tenants.Day}}
		search.TPM = 5000
		search.Pools = []tenants.PoolLimits{{Pool: "p", RPM: 7}}
		eu.Pools = []tenants.PoolLimits{{Pool: "p", OTPM: 600}}
		s := harness.New(t, harness.World{
			Mock: mock.Config{OutputTokens: 10}, Pool: harness.Pool(700_000, 0, 50), Tenants: []tenants.Tenant{acme, search, batch, eu},
		})
		names := []string{"acme", "acme/search", "acme/batch", "acme/search/eu", "acme/search/eu"}
		for _, name := range names {
			if a := s.Call(t.Context(), name, harness.Chat(false, 50, "")); a.Status != http.StatusOK {
				t.Fatalf("%s: %d %s", name, a.Status, a.Body)
			}
		}
		synctest.Wait()
		took := func(prefix ...string) (tokens int64) {
			for _, name := range prefix {
				tokens += s.Charged(name, "input") + s.Charged(name, "output")
			}
			return tokens
		}
		all := took("acme", "acme/search", "acme/batch", "acme/search/eu")
		ofSearch := took("acme/search", "acme/search/eu")
		if all == 0 || ofSearch == 0 || all <= ofSearch {
			t.Fatalf("%d tokens, of them %d of search", all, ofSearch)
		}
		day := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1).Format(time.RFC3339)
		aboveSearch := map[string]any{
			"tenant": "acme", "running": 0.0, "limits": []any{limit("requests", 10, 5)},
			"budgets": []any{map[string]any{"name": "requests per day", "unit": "requests", "per": "day", "limit": 40.0, "used": 5.0, "remaining": 35.0, "resets_at": day}},
			"pools":   []any{map[string]any{"name": "p", "limits": []any{limit("tokens", 8000, all), limit("concurrency", 9, 0)}}},
		}
		aboveEU := map[string]any{
			"tenant": "acme/search", "running": 0.0, "limits": []any{limit("tokens", 5000, ofSearch)}, "budgets": []any{},
			"pools": []any{map[string]any{"name": "p", "limits": []any{limit("requests", 7, 3)}}},
		}
		for name, want := range map[string]struct{ limits, inPool, parents []any }{
			"acme":           {[]any{limit("requests", 10, 5)}, []any{limit("tokens", 8000, all), limit("concurrency", 9, 0)}, []any{}},
			"acme/search":    {[]any{limit("tokens", 5000, ofSearch)}, []any{limit("requests", 7, 3)}, []any{aboveSearch}},
			"acme/search/eu": {[]any{}, []any{limit("output_tokens", 600, s.Charged("acme/search/eu", "output"))}, []any{aboveEU, aboveSearch}},
			"acme/batch":     {[]any{}, []any{}, []any{aboveSearch}},
		} {
			a := s.Get("/v1/usage", name)
			var got struct {
				Limits, Parents []any
				Pools           []struct{ Limits []any }
			}
			if err := json.Unmarshal([]byte(a.Body), &got); err != nil || len(got.Pools) != 1 {
				t.Fatalf("%s: %v: %s", name, err, a.Body)
			}
			for what, pair := range map[string][2][]any{"limits": {want.limits, got.Limits}, "pool": {want.inPool, got.Pools[0].Limits}, "parents": {want.parents, got.Parents}} {
				if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
					t.Errorf("%s, %s (-want +got):\n%s", name, what, diff)
				}
			}
		}
	})
}
