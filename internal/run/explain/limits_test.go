package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// snapshot is a policy with one pool and one tenant.
func snapshot(t *testing.T) *tenants.Snapshot {
	t.Helper()
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "u", BaseURL: "http://upstream/v1"}}
	pool := tenants.DefaultPool("p")
	pool.Models = []string{"m"}
	cfg.Pools = []tenants.Pool{pool}
	snap := testkit.Must(tenants.Build(cfg, []tenants.Tenant{{Name: "acme", Tier: "t", Keys: []tenants.Key{{Hash: tenants.HashKey("acme")}}}}))(t)
	return snap
}

// What stands in the way comes first, and of that what does so for longest; also what
// refuses without a time. What decides is found wherever it stands.
func TestLimits_Order(t *testing.T) {
	own := func(axis string, limit, used, asked int64, wait time.Duration) governor.Check {
		return governor.Check{Tenant: "acme", Axis: axis, Limit: limit, Used: used, Asked: asked, Wait: wait}
	}
	checks := []governor.Check{
		own("requests", 10, 9, 1, 0),
		own("tokens", 100, 10, 1, 0),
		own("input_tokens", 100, 90, 20, time.Second),
		own("output_tokens", 100, 100, 20, time.Minute),
		own("concurrency", 4, 4, 0, 0),
	}
	snap := snapshot(t)
	refused := func(axis string) *governor.Refusal {
		return &governor.Refusal{Own: true, Tenant: "acme", Pool: "p", Axis: axis}
	}
	for _, tc := range []struct {
		name     string
		forecast governor.Forecast
		order    string
		decider  int // -1 is none
	}{
		{"nothing decides", governor.Forecast{}, "output_tokens input_tokens requests tokens concurrency", -1},
		{"it waits", governor.Forecast{Wait: time.Minute}, "output_tokens input_tokens requests tokens concurrency", 0},
		{"the first refuses, another takes longer", governor.Forecast{Refused: refused("input_tokens")}, "output_tokens input_tokens requests tokens concurrency", 1},
		{"refused without a time", governor.Forecast{Refused: refused("tokens")}, "output_tokens input_tokens tokens requests concurrency", 2},
	} {
		tc.forecast.Checks = checks
		list, decider := explainLimits(snap, &tc.forecast)
		var order []string
		for _, l := range list {
			order = append(order, l.Axis)
		}
		at := -1
		if decider != nil {
			at = *decider
		}
		if got := strings.Join(order, " "); got != tc.order || at != tc.decider {
			t.Errorf("%s: %s, decided by %d", tc.name, got, at)
		}
	}
}
