package policy

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/limits/shape"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// everything says something about each field that a policy decides.
const everything = `
upstreams: {u: {base_url: "http://127.0.0.1:1"}}
timezone: Europe/Paris
store: redis://127.0.0.1:1
pools:
  p:
    models: [m]
    tpm: 1000000
    rpm: 1000
    itpm: 800000
    otpm: 200000
    concurrency: {max: 20, min: 2, adaptive: gradient, interactive_reserve: 3, per_tenant: true}
    accounting: production
    token_weights: {input: 2, cached_input: 0.5, output: 3, reasoning: 4, audio: 5}
    headroom: 0.02
    burst: 5s
    ticket_wait: 7s
    max_queue: 11
    budgets: [{tokens: 1000000, per: day}]
    on_store_loss: {local: 0.1}
    tenant_limits: strict
    expect_nodes: 3
  q: {models: [other], rpm: 10, upstreams: [{name: u, weight: 2, order: 1, tpm: 1, rpm: 2, itpm: 3, otpm: 4, concurrency: 3}], tpm: 1, concurrency: {max: 3, soft_cap: 0.5, hold_back: 0.1}}
`

const everybody = `
tiers:
  gold: {group: true, weight: 3}
tenants:
  acme:
    tier: gold
    tenant_weight: 2
    models: [m]
    floor_tpm: 1000
    credit: 10s
    priority: background
    rpm: 1
    tpm: 2000
    itpm: 3
    otpm: 4
    concurrency: 5
    max_wait: 6s
    shadow: true
    budgets: [{requests: 9, per: week}]
    limits: [{tokens: 16, per: 30s, shape: gcra, burst: 17}]
    pools: {p: {rpm: 11, tpm: 12, itpm: 13, otpm: 14, concurrency: 15, limits: [{tokens: 18, per: 5h, shape: token_bucket, burst: 19}]}}
    teams:
      search: {weight: 4, keys: ["sha256:1111111111111111111111111111111111111111111111111111111111111111"]}
  low: {priority: 3, keys: ["sha256:2222222222222222222222222222222222222222222222222222222222222222"]}
`

// load reads a policy from a config and one file of tenants.
func load(t *testing.T, config, policy string) *tenants.Snapshot {
	t.Helper()
	dir := t.TempDir()
	testkit.OK(t, os.Mkdir(filepath.Join(dir, "tenants"), 0o755))
	files := map[string]string{"llmgov.yaml": config, "tenants/a.yaml": policy}
	for name, text := range files {
		testkit.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return testkit.Must(tenants.Load(filepath.Join(dir, "llmgov.yaml"), tenants.Options{}))(t)
}

// No field of a pool's or tenant's rules is forgotten: a policy that sets each has none at zero.
func TestGovernorIsGivenEveryField(t *testing.T) {
	cfg := Governor(load(t, everything, everybody))
	if cfg.Zone.String() != "Europe/Paris" || cfg.Revision == "" {
		t.Errorf("zone %v, revision %q", cfg.Zone, cfg.Revision)
	}
	cfg.Pools[0].Upstreams = cfg.Pools[1].Upstreams   // which do not go together with on_store_loss
	cfg.Pools[0].SoftCapPPM = cfg.Pools[1].SoftCapPPM // because no adaptive limit has one
	cfg.Pools[0].HoldBackPPM = cfg.Pools[1].HoldBackPPM
	cfg.Tenants[0].Below = cfg.Tenants[2].Below // because a background tenant has no number
	filled(t, "pool", reflect.ValueOf(cfg.Pools[0]))
	filled(t, "tenant", reflect.ValueOf(cfg.Tenants[0]))
	if team := cfg.Tenants[1]; team.NoCalls || team.Name != "acme/search" || team.Weight != 4 {
		t.Errorf("the team is %+v", team)
	}
	if got := cfg.Tenants[0].Pools; len(got) != 1 || got[0] != "p" {
		t.Errorf("acme, which may use m alone, reaches %v", got)
	}
}

// filled fails on each exported field of v that is zero, also inside of structs, lists and maps.
func filled(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			filled(t, path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case v.Kind() == reflect.Slice && v.Len() > 0:
		filled(t, path+"[0]", v.Index(0))
	case v.Kind() == reflect.Map && v.Len() > 0:
		filled(t, path+"{}", v.MapIndex(v.MapKeys()[0]))
	case v.IsZero() && !zeroMeansSomething[path]:
		t.Errorf("%s is zero", path)
	}
}

// zeroMeansSomething are fields whose word in the policy above is the governor's zero: tokens.
var zeroMeansSomething = map[string]bool{"pool.Budgets[0].Unit": true}

// Weights by which each token counts as one are the governor's zero, by which it need not weigh.
func TestEvenWeightsAreNone(t *testing.T) {
	if got := weights(tenants.TokenWeights{Input: 1, CachedInput: 1, Output: 1, Reasoning: 1, Audio: 1}); got != (governor.TokenWeights{}) {
		t.Errorf("even weights are %+v", got)
	}
	if got := weights(tenants.TokenWeights{Input: 1}); got != (governor.TokenWeights{Input: 1}) {
		t.Errorf("other weights are %+v", got)
	}
}

func TestWordsHaveTheirNumbers(t *testing.T) {
	words(t, laws, map[tenants.Law]adaptive.Law{"": adaptive.Fixed, "gradient": adaptive.Gradient, "aimd": adaptive.AIMD})
	words(t, accountings, map[tenants.Accounting]escrow.Accounting{
		"": escrow.AdmitMax, "admit_max": escrow.AdmitMax, "production": escrow.Production, "settle": escrow.Settled,
	})
	words(t, lossRules, map[tenants.StoreLossRule]governor.OnLoss{
		"": governor.LossClosed, "closed": governor.LossClosed, "open": governor.LossOpen, "local": governor.LossLocal,
	})
	words(t, limitsModes, map[tenants.LimitsMode]governor.LimitsMode{
		"": governor.LimitsLeased, "leased": governor.LimitsLeased, "cached_deny": governor.LimitsCachedDeny, "strict": governor.LimitsStrict,
	})
	words(t, units, map[tenants.Unit]governor.Unit{
		"tokens": governor.UnitTokens, "requests": governor.UnitRequests, "usd": governor.UnitMicroUSD,
	})
	words(t, kinds, map[tenants.Unit]limits.Axis{"tokens": limits.Tokens, "requests": limits.Requests})
	words(t, shapes, map[tenants.Shape]shape.Kind{
		"": shape.Rolling, "rolling_window": shape.Rolling, "fixed_window": shape.Fixed, "token_bucket": shape.TokenBucket, "gcra": shape.GCRA,
	})
	words(t, periods, map[tenants.Period]budget.Period{
		"hour": budget.Hour, "day": budget.Day, "week": budget.Week, "month": budget.Month,
	})
}

func words[W ~string, N comparable](t *testing.T, table, want map[W]N) {
	t.Helper()
	for word, number := range want {
		if table[word] != number {
			t.Errorf("%q is %v, want %v", word, table[word], number)
		}
	}
}

// A limit has the same name in files and in the books, by which explain finds its line.
func TestWindowsHaveTheirNames(t *testing.T) {
	for _, per := range []time.Duration{time.Second, 90 * time.Second, time.Minute, time.Hour, 5*time.Hour + 30*time.Second, 744 * time.Hour} {
		for name, kind := range shapes {
			for unit, axis := range kinds {
				written := tenants.Window{Unit: unit, Per: per, Shape: name}
				kept := limits.Window{Of: axis, Rule: shape.Rule{Kind: kind, Per: per}}
				if written.Name() != kept.Name() {
					t.Errorf("%q in files is %q in the books", written.Name(), kept.Name())
				}
			}
		}
	}
}

// A recorded call that another policy sends to another pool may go to all of the upstreams there: its set of upstreams was of the pool
// where it was.
func TestRerouteToAnotherPool(t *testing.T) {
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "a", BaseURL: "http://a"}, {Name: "b", BaseURL: "http://b"}}
	pool := tenants.DefaultPool("new", "m")
	pool.Upstreams = []tenants.PoolUpstream{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}}
	cfg.Pools = []tenants.Pool{pool}
	snap := testkit.Must(tenants.Build(cfg, []tenants.Tenant{{Name: "t", Tier: "standard", Weight: 1, Keys: []tenants.Key{{Hash: tenants.HashKey("t")}}}}))(t)
	for from, want := range map[string]uint64{"old": 0, "new": 0b10} {
		req := governor.Request{Tenant: "t", Pool: from, Model: "m", Via: 0b10}
		if code := Reroute(snap, &req); code != "" || req.Pool != "new" || req.Via != want {
			t.Errorf("from pool %s: %s, to %s by %b, want %b", from, code, req.Pool, req.Via, want)
		}
	}
}
