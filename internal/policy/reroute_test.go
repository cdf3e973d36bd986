package policy

import (
	"testing"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// A recorded call that another policy sends to another pool may go to all of the upstreams there: its set of upstreams was of the pool
// where it was.
func TestRerouteToAnotherPool(t *testing.T) {
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "a", BaseURL: "http://a"}, {Name: "b", BaseURL: "http://b"}}
	pool := tenants.DefaultPool("new", "m")
	pool.Upstreams = []tenants.PoolUpstream{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}}
	cfg.Pools = []tenants.Pool{pool}
	snap := testkit.Must(tenants.Build(cfg, []tenants.Tenant{{Name: "t", Tier: "standard", Weight: 1000, Keys: []tenants.Key{{Hash: tenants.HashKey("t")}}}}))(t)
	for from, want := range map[string]uint64{"old": 0, "new": 0b10} {
		req := governor.Request{Tenant: "t", Pool: from, Model: "m", Via: 0b10}
		if code := Reroute(snap, &req); code != "" || req.Pool != "new" || req.Via != want {
			t.Errorf("from pool %s: %s, to %s by %b, want %b", from, code, req.Pool, req.Via, want)
		}
	}
}
