package operations

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/tenants"
)

// A tenant sees what it has and has used, to the token, and not that there is anybody else.
func TestUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := harness.Pool(700_000, 0, 50)
		shared.Name = "p"
		shared.HeadroomPPM = 0
		shared.Budgets = []tenants.Budget{{Unit: tenants.Tokens, Limit: 987_654, Per: tenants.Day}}
		end := time.Now().Add(time.Hour).UTC()
		mine := harness.Tenant("mine", 1)
		mine.Keys[0].Name = "ci"
		mine.Keys[0].Expires = end
		mine.RPM = 3
		mine.TPM = 5000
		mine.Concurrency = 4
		mine.MaxOutputTokens = 100
		mine.MaxWait = 2 * time.Second
		mine.Budgets = []tenants.Budget{{Unit: tenants.Requests, Limit: 40, Per: tenants.Day}, {Unit: tenants.MicroUSD, Limit: 2_000_000, Per: tenants.Month}}
		stranger := harness.Tenant("stranger", 6)
		s := harness.New(t, harness.World{
			Mock: mock.Config{OutputTokens: 10}, Pool: shared, Tenants: []tenants.Tenant{mine, stranger}, Timezone: "UTC",
			Prices: []tenants.ModelPrice{{Model: "*", Price: tenants.Price{Input: 1_000_000, Output: 1_000_000}}},
		})
		var took int64
		for _, key := range []string{"mine", "stranger", "mine", "stranger", "mine"} {
			a := s.Call(t.Context(), key, harness.Chat(false, 50, ""))
			var said struct {
				Usage struct {
					Total int64 `json:"total_tokens"`
				}
			}
			if err := json.Unmarshal([]byte(a.Body), &said); err != nil || a.Status != http.StatusOK || said.Usage.Total == 0 {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
			if key == "mine" {
				took += said.Usage.Total
			}
		}
		synctest.Wait()
		if a := s.Call(t.Context(), "mine", harness.Chat(false, 50, ""), "x-llmgov-max-wait", "0s"); a.Status != http.StatusTooManyRequests {
			t.Fatalf("the fourth call of three gets %d", a.Status)
		}

		today := time.Now().UTC().Truncate(24 * time.Hour)
		month := time.Date(today.Year(), today.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		day := today.AddDate(0, 0, 1)
		usd := float64(took) / 1e6
		want := map[string]any{
			"object": "usage", "tenant": "mine", "tier": "t",
			"key":    map[string]any{"id": tenants.HashKey("mine").ID(), "name": "ci", "expires": end.Format(time.RFC3339)},
			"routes": []any{"inference", "models"}, "models": []any{"*"},
			"max_wait_seconds": 2.0, "max_output_tokens": 100.0, "shadow": false, "running": 0.0, "waiting": 0.0,
			"limits": []any{
				map[string]any{"axis": "requests", "limit": 3.0, "used": 3.0, "remaining": 0.0},
				map[string]any{"axis": "tokens", "limit": 5000.0, "used": float64(took), "remaining": float64(5000 - took)},
				map[string]any{"axis": "concurrency", "limit": 4.0, "used": 0.0, "remaining": 4.0},
			},
			"budgets": []any{
				map[string]any{"name": "requests per day", "unit": "requests", "per": "day", "limit": 40.0, "used": 3.0, "remaining": 37.0, "resets_at": day.Format(time.RFC3339)},
				map[string]any{"name": "usd per month", "unit": "usd", "per": "month", "limit": 2.0, "used": usd, "remaining": 2 - usd, "resets_at": month.Format(time.RFC3339)},
			},
			"pools": []any{map[string]any{
				"name": "p", "weight": 1.0, "share_tpm": 5000.0, "floor_tpm": 0.0, "queued": 0.0, "limits": []any{},
				"budgets": []any{map[string]any{"name": "tokens per day", "unit": "tokens", "per": "day", "used": float64(took), "resets_at": day.Format(time.RFC3339)}},
			}},
			"parents": []any{},
		}
		for _, path := range []string{"/v1/usage", "/usage", "/v1/usage"} { // it costs nothing: the limit of 3 was spent
			a := s.Get(path, "mine")
			var got map[string]any
			if err := json.Unmarshal([]byte(a.Body), &got); err != nil || a.Status != http.StatusOK {
				t.Fatalf("%s: %d %s", path, a.Status, a.Body)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", path, diff)
			}
			for _, secret := range []string{"stranger", "987654", "700000"} {
				if strings.Contains(a.Body, secret) {
					t.Errorf("%s tells %s: %s", path, secret, a.Body)
				}
			}
			if a.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s may be kept by caches", path)
			}
		}
		for key, want := range map[string]int{"": http.StatusUnauthorized, "nobody": http.StatusUnauthorized, "stranger": http.StatusOK} {
			if a := s.Get("/v1/usage", key); a.Status != want {
				t.Errorf("key %q gets %d: %s", key, a.Status, a.Body)
			}
		}
		time.Sleep(time.Hour)
		if a := s.Get("/v1/usage", "mine"); a.Status != http.StatusUnauthorized {
			t.Errorf("an expired key gets %d", a.Status)
		}
	})
}
