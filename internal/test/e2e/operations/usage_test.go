package operations

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/ops/admin"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
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
			testkit.Same(t, want, got, path)
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
		acme.Pools = []tenants.PoolLimits{{Pool: "p", Limits: terms.Limits{TPM: 8000, Concurrency: 9}}}
		acme.Budgets = []tenants.Budget{{Unit: tenants.Requests, Limit: 40, Per: tenants.Day}}
		search.TPM = 5000
		search.Pools = []tenants.PoolLimits{{Pool: "p", Limits: terms.Limits{RPM: 7}}}
		eu.Pools = []tenants.PoolLimits{{Pool: "p", Limits: terms.Limits{OTPM: 600}}}
		s := harness.New(t, harness.World{
			Mock: mock.Config{OutputTokens: 10}, Pool: harness.Pool(700_000, 0, 50), Tenants: []tenants.Tenant{acme, search, batch, eu},
		})
		names := []string{"acme", "acme/search", "acme/batch", "acme/search/eu", "acme/search/eu"}
		for _, name := range names {
			s.Call(t.Context(), name, harness.Chat(false, 50, "")).WantOK(t, name)
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
				testkit.Same(t, pair[0], pair[1], name, what)
			}
		}
	})
}

// The operator sees who belongs to whom, with which weight, and limits with the pool
// for which they hold.
func TestAdminTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := harness.New(t, harness.World{Pool: harness.Pool(0, 1, 0), Tenants: []tenants.Tenant{harness.Tenant("first", 1)}})
		s.Apply(harness.PolicyFromFiles(t, "tpm: 60000", `
tiers:
  free: {weight: 2, group: true, tenant_weight: 0.5}
tenants:
  acme:
    rpm: 100
    pools: {p: {tpm: 5000}}
    teams:
      search: {weight: 3, keys: [KEY(a)], teams: {eu: {pools: {p: {concurrency: 4}}, keys: [KEY(b)]}}}
  ann: {tier: free, keys: [KEY(c)]}
`))
		type axis struct {
			Axis, Pool string
			Limit      int64
		}
		type view struct {
			Name, Parent, Tier, Group string
			Weight                    float64
			GroupWeight               float64 `json:"group_weight"`
			Limits                    []axis
		}
		var got struct{ Tenants []view }
		s.Admin("/api/v1/tenants", &got)
		want := []view{
			{Name: "acme", Weight: 1, Limits: []axis{{"requests", "", 100}, {"tokens", "p", 5000}}},
			{Name: "acme/search", Parent: "acme", Weight: 3, Limits: []axis{}},
			{Name: "acme/search/eu", Parent: "acme/search", Weight: 1, Limits: []axis{{"concurrency", "p", 4}}},
			{Name: "ann", Tier: "free", Group: "free", Weight: 0.5, GroupWeight: 2, Limits: []axis{}},
		}
		testkit.Same(t, want, got.Tenants)
	})
}

// The operator sees the policy in force, and for each limit whose it is.
func TestAdminPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := harness.New(t, harness.World{Pool: harness.Pool(0, 1, 0), Tenants: []tenants.Tenant{harness.Tenant("first", 1)}})
		s.Apply(harness.PolicyFromFiles(t, "tpm: 60000", `
tenants:
  acme:
    rpm: 100
    teams:
      search: {weight: 3, rpm: 200, keys: [KEY(a)]}
  ann: {keys: [KEY(b)]}
`))
		type limit struct {
			Key, From, Of string
			Value         any
		}
		var got struct {
			Pools []struct {
				Name    string
				Limits  []limit
				Tenants []struct {
					Name   string
					Share  float64 `json:"share_ratio"`
					Limits []limit
				}
			}
		}
		s.Admin("/api/v1/policy", &got)
		if len(got.Pools) != 1 || len(got.Pools[0].Limits) == 0 {
			t.Fatalf("pools: %+v", got.Pools)
		}
		shares := map[string]float64{}
		var rpm limit
		for _, one := range got.Pools[0].Tenants {
			shares[one.Name] = one.Share
			for _, l := range one.Limits {
				if one.Name == "acme/search" && l.Key == "rpm" && l.Of != "" {
					rpm = l
				}
			}
		}
		testkit.Same(t, map[string]float64{"acme": 0, "acme/search": 0.5, "ann": 0.5}, shares, "shares")
		if rpm.Of != "acme" || rpm.Value != 100.0 || rpm.From == "" {
			t.Errorf("the team's strictest rpm is its parent's, as written in a file; got %+v", rpm)
		}
	})
}

// Accounts of limits that the store cannot read leave the gateway ready, but do not go unnoticed: /readyz counts them for whoever asks, and
// names none, and the snapshot has a condition that names them and says what to do.
func TestUnreadableAccountsAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := harness.New(t, harness.World{Pool: harness.Pool(0, 0, 10), Tenants: []tenants.Tenant{harness.Tenant("acme", 1)}})
		defer s.Close()
		var list []adminapi.Unreadable
		api := s.AdminAPI(admin.Options{Unreadable: func() []adminapi.Unreadable { return list }})
		get := func(path string) (int, string) {
			w := httptest.NewRecorder()
			api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
			return w.Code, w.Body.String()
		}
		if status, body := get("/readyz"); status != http.StatusOK || body != "ok\n" {
			t.Errorf("all is well, and /readyz says %d %s", status, body)
		}
		list = []adminapi.Unreadable{{Owner: "acme in p", Since: time.Now(), Error: "damaged; DEL 'llmgov:parts:{acme} in p'"}}
		status, body := get("/readyz")
		if status != http.StatusOK || !strings.HasPrefix(body, "ok\n") || !strings.Contains(body, "cannot read") || !strings.Contains(body, ": 1;") || strings.Contains(body, "acme") {
			t.Errorf("/readyz says %d %s", status, body)
		}
		if _, body := get("/api/v1/snapshot"); !strings.Contains(body, `"store_unreadable"`) || !strings.Contains(body, "acme in p") || !strings.Contains(body, "DEL 'llmgov:parts") {
			t.Errorf("the snapshot says %s", body)
		}
	})
}
