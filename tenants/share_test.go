package tenants

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

// sharesOf loads a policy beside a pool of 1000 tokens a minute without headroom and shows the shares in it.
func sharesOf(t *testing.T, pool, policy string) []string {
	t.Helper()
	s := testkit.Must(loadSections(map[string]string{
		"llmgov.yaml": "upstreams: {o: {base_url: http://o}}\npools:\n  main: {models: [m, n], headroom: 0, " + pool +
			"}\n  side: {models: [s], rpm: 1}\ndefault_pool: main\n",
		"tenants/a.yaml": policy,
	}))(t)
	var out []string
	for _, sh := range s.Shares(&s.Pools()[0]) {
		line := fmt.Sprintf("%s %.4f %d", sh.Tenant.Name, sh.Part, sh.TPM)
		if sh.Teams {
			line += fmt.Sprintf(" of %.4f", sh.Whole)
		}
		out = append(out, line)
	}
	return out
}

func TestShares(t *testing.T) {
	const keyed = `keys: ["sha256:%064d"]`
	k := func(n int) string { return fmt.Sprintf(keyed, n) }
	for _, c := range []struct {
		what, pool, policy string
		want               []string
	}{
		{
			"by weight", "tpm: 1000",
			"tenants: {a: {" + k(1) + ", weight: 3}, b: {" + k(2) + "}}",
			[]string{"a 0.7500 750", "b 0.2500 250"},
		}, {
			"who cannot use the pool has no part in it", "tpm: 1000",
			"tenants: {a: {" + k(1) + "}, b: {" + k(2) + ", models: [s]}}",
			[]string{"a 1.0000 1000"},
		}, {
			"a group's weight counts once, for those of it that may use the pool", "tpm: 1000",
			"tiers: {g: {group: true, weight: 1}}\ntenants: {a: {" + k(1) + ", weight: 3}, b: {tier: g, " + k(2) +
				"}, c: {tier: g, tenant_weight: 4, " + k(3) + "}, d: {tier: g, models: [s], " + k(4) + "}}",
			[]string{"a 0.7500 750", "b 0.0500 50", "c 0.2000 200"},
		}, {
			"a floor instead of less, not on top", "tpm: 1000",
			"tenants: {a: {" + k(1) + ", weight: 8}, b: {" + k(2) + ", floor_tpm: 400}, c: {" + k(3) + ", weight: 1, floor_tpm: 50}}",
			[]string{"a 0.5333 533", "b 0.4000 400", "c 0.0667 67"},
		}, {
			"floors of a group's members are the group's", "tpm: 1000",
			"tiers: {g: {group: true, weight: 1, floor_tpm: 200}}\ntenants: {a: {" + k(1) + ", weight: 9}, b: {tier: g, " + k(2) +
				"}, c: {tier: g, floor_tpm: 300, " + k(3) + "}}",
			[]string{"a 0.5000 500", "b 0.2000 200", "c 0.3000 300"},
		}, {
			"what an own limit leaves is shared on", "tpm: 1000",
			"tenants: {a: {" + k(1) + "}, b: {" + k(2) + ", weight: 9, tpm: 100}, c: {" + k(3) + ", weight: 2}}",
			[]string{"a 0.3000 300", "b 0.1000 100", "c 0.6000 600"},
		}, {
			"own limits may leave a rest", "tpm: 1000",
			"tenants: {a: {" + k(1) + ", tpm: 100}, b: {" + k(2) + ", tpm: 200}}",
			[]string{"a 0.1000 100", "b 0.2000 200"},
		}, {
			"teams divide their tenant's share with its own key, which weighs 1", "tpm: 1000",
			"tenants: {a: {" + k(1) + ", weight: 3, teams: {s: {weight: 2, " + k(2) + "}, u: {teams: {v: {" + k(3) + "}, w: {" + k(4) + "}}}}}, b: {" + k(5) + "}}",
			[]string{"a 0.1875 188 of 0.7500", "a/s 0.3750 375", "a/u 0.0000 0 of 0.1875", "a/u/v 0.0938 94", "a/u/w 0.0938 94", "b 0.2500 250"},
		}, {
			"teams of a group's tenant, and only those that may use the pool", "tpm: 1000",
			"tiers: {g: {group: true}}\ntenants: {a: {tier: g, teams: {s: {" + k(1) + "}, u: {models: [s], " + k(2) + "}}}, b: {tier: g, " + k(3) + "}, c: {" + k(4) +
				"}, d: {teams: {x: {models: [s], " + k(5) + "}}}}",
			[]string{"a 0.0000 0 of 0.2500", "a/s 0.2500 250", "b 0.2500 250", "c 0.5000 500"},
		}, {
			"floors of teams are their tenant's where it has none, and within its own where it has one", "tpm: 1000",
			"tenants: {a: {weight: 1, teams: {s: {floor_tpm: 400, " + k(1) + "}, u: {floor_tpm: 200, " + k(2) + "}}}, " +
				"b: {weight: 9, floor_tpm: 100, teams: {x: {weight: 9, " + k(3) + "}, y: {floor_tpm: 90, " + k(4) + "}}}}",
			[]string{"a 0.0000 0 of 0.6000", "a/s 0.4000 400", "a/u 0.2000 200", "b 0.0000 0 of 0.4000", "b/x 0.3100 310", "b/y 0.0900 90"},
		}, {
			"own limits bind on every level, also below floors", "tpm: 1000",
			"tenants: {a: {tpm: 100, teams: {s: {floor_tpm: 300, " + k(1) + "}, u: {floor_tpm: 100, " + k(2) + "}}}, " +
				"b: {teams: {x: {pools: {main: {tpm: 200}}, " + k(3) + "}, y: {tpm: 300, " + k(4) + "}}}}",
			[]string{"a 0.0000 0 of 0.1000", "a/s 0.0750 75", "a/u 0.0250 25", "b 0.0000 0 of 0.5000", "b/x 0.2000 200", "b/y 0.3000 300"},
		}, {
			"without tpm only weights count", "rpm: 10",
			"tenants: {a: {" + k(1) + ", tpm: 1}, b: {" + k(2) + ", weight: 0.5}}",
			[]string{"a 0.6667 0", "b 0.3333 0"},
		},
	} {
		t.Run(c.what, func(t *testing.T) {
			if diff := cmp.Diff(c.want, sharesOf(t, c.pool, c.policy)); diff != "" {
				t.Errorf("shares (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFill holds fill to what makes a weighted max-min allocation the only one: it spends the capacity, keeps bounds,
// and nobody between his bounds stands elsewhere than at the common level.
func TestFill(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var claims []*claim
		var least, most float64
		for range rapid.IntRange(1, 8).Draw(rt, "claims") {
			c := &claim{weight: float64(rapid.IntRange(1, 1_000_000).Draw(rt, "weight"))}
			c.least = float64(rapid.IntRange(0, 1000).Draw(rt, "least"))
			c.most = c.least + float64(rapid.IntRange(0, 10_000).Draw(rt, "room"))
			least = least + c.least
			most = most + c.most
			claims = append(claims, c)
		}
		capacity := least + float64(rapid.IntRange(0, 20_000).Draw(rt, "more"))
		fill(claims, capacity)
		var sum, level float64
		for _, c := range claims {
			sum += c.gets
			if c.gets < c.least-1e-6 || c.gets > c.most+1e-6 {
				rt.Fatalf("%v gets %v, outside of its bounds", *c, c.gets)
			}
			if c.gets > c.least+1e-6 {
				level = max(level, c.gets/c.weight) // of whom the level lifts above his floor
			}
		}
		if want := min(capacity, most); math.Abs(sum-want) > 1e-3 {
			rt.Fatalf("in all %v, want %v", sum, want)
		}
		lower := slices.ContainsFunc(claims, func(c *claim) bool {
			return c.gets < c.most-1e-3 && c.gets/c.weight < level*(1-1e-6)-1e-9
		})
		if lower {
			rt.Fatalf("one could have more and stands below level %v: %v", level, claims)
		}
	})
}

func TestUncalled(t *testing.T) {
	s := testkit.Must(loadSections(map[string]string{
		"llmgov.yaml": "upstreams: {o: {base_url: http://o}}\npools:\n  a: {models: [m, n, \"x-*\", \"y-*\"], rpm: 1}\n" +
			"  b: {models: [\"x-1*\", z], rpm: 1}\ndefault_pool: a\n",
		"tenants/a.yaml": "tenants: {t: {models: [m, n, x-10, \"y-1*\"], teams: {u: {keys: [\"" + key1 + "\"], models: [m, x-10, \"y-*\"]}}}}\n",
	}))(t)
	for i, want := range [][]string{{"n", "x-*"}, {"z"}} { // x-10 leads to b
		if diff := cmp.Diff(want, s.Uncalled(&s.Pools()[i])); diff != "" {
			t.Errorf("pool %s (-want +got):\n%s", s.Pools()[i].Name, diff)
		}
	}
}

// A key that is made at run time makes a tenant one who shares, and the last one revoked makes it none.
func TestShares_KeysMadeAtRunTime(t *testing.T) {
	s := testkit.Must(loadSections(map[string]string{
		"llmgov.yaml":    "upstreams: {o: {base_url: http://o}}\npools: {main: {models: [m], tpm: 1000, headroom: 0}}\n",
		"tenants/a.yaml": "tenants: {a: {keys: [], teams: {x: {weight: 3, keys: []}}}, b: {keys: [\"" + key1 + "\"]}}\n",
	}))(t)
	parts := func(keys keyfile.Content) string {
		s := s.WithKeys(keys)
		text := fmt.Sprint(s.Uncalled(&s.Pools()[0]))
		for _, sh := range s.Shares(&s.Pools()[0]) {
			text += fmt.Sprintf(" %s %.3f", sh.Tenant.Name, sh.Part)
		}
		return text
	}
	made := []keyfile.Entry{{Tenant: "a", Key: Key{Hash: HashKey("a")}}, {Tenant: "a/x", Key: Key{Hash: HashKey("x")}}}
	for want, keys := range map[string]keyfile.Content{
		"[] b 1.000":                   {},
		"[] a 0.000 a/x 0.500 b 0.500": {Keys: made[1:]},
		"[] a 0.125 a/x 0.375 b 0.500": {Keys: made},
		"[] a 0.250 a/x 0.750":         {Keys: made, Revoked: []keyfile.Revoked{{Hash: hash(t, key1)}}},
		"[] a 0.500 b 0.500":           {Keys: made, Revoked: []keyfile.Revoked{{Hash: HashKey("x")}}},
		"[m]":                          {Revoked: []keyfile.Revoked{{Hash: hash(t, key1)}}},
	} {
		if got := parts(keys); got != want {
			t.Errorf("shares are %s, want %s", got, want)
		}
	}
}
