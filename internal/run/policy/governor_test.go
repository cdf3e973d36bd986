package policy

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// everything says something about each field that a policy decides.
const everything = `
upstreams: {u: {base_url: "http://127.0.0.1:1", kind: azure}}
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
    token_weights: {input: 2, cached_input: 0.5, output: 3, reasoning: 4, audio: 5, held_output: 6}
    headroom: 0.02
    burst: 5s
    ticket_wait: 7s
    max_queue: 11
    budgets: [{tokens: 1000000, per: day, warn_at: [10%, 20%, 30%, 40%], then: background}]
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
    budgets: [{requests: 9, per: week, warn_at: [10%, 20%, 30%, 40%], then: background}]
    limits: [{tokens: 16, per: 30s, shape: gcra, burst: 17}]
    members: {by: session, each: {rpm: 20}}
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
	blocked := []tenants.Override{{Tenant: "acme", RPM: new(int64(0))}}
	cfg := Governor(load(t, everything, everybody).WithOverrides(blocked))
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

// A recorded call of a member is that of its tenant where none are told apart.
func TestReroute_Member(t *testing.T) {
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "a", BaseURL: "http://a"}}
	cfg.Pools = []tenants.Pool{tenants.DefaultPool("p", "m")}
	for want, members := range map[string]*tenants.Members{"chat/team": nil, "chat/team/~ann": {By: tenants.MemberBy{Source: tenants.ByUser}}} {
		snap := testkit.Must(tenants.Build(cfg, []tenants.Tenant{{Name: "chat"}, {Name: "chat/team", Members: members, Keys: []tenants.Key{{Hash: tenants.HashKey("t")}}}}))(t)
		req := governor.Request{Tenant: "chat/team/~ann", Pool: "p", Model: "m"}
		if code := Reroute(snap, &req); code != "" || req.Tenant != want {
			t.Errorf("it is %s's, refused by %q, want %s", req.Tenant, code, want)
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
