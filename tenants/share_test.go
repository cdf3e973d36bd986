package tenants

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/test/testkit"
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

// TestTemplate_Override checks, for each key that a tier gives, that a tenant takes it or replaces it.
func TestTemplate_Override(t *testing.T) {
	from := func(tier, own string) Tenant {
		t.Helper()
		policy := "tiers: {pro: {" + tier + "}}\ntenants: {acme: {tier: pro, keys: [\"" + key1 + "\"]" + own + "}}\n"
		config := strings.Replace(goodConfig, "tpm: 1000", "tpm: 1000, concurrency: {max: 10, hold_back: 0.5}", 1)
		s := testkit.Must(loadSections(map[string]string{"llmgov.yaml": config, "tenants/a.yaml": policy}))(t)
		tn := s.Tenants()[0]
		tn.Keys = nil
		tn.Source = ""
		return tn
	}
	plain := Tenant{Name: "acme", Parent: -1, Routes: DefaultRoutes, Tier: "pro", Models: []string{"*"}, DefaultPool: "main", Weight: 1}
	with := func(edit func(*Tenant)) Tenant {
		tn := plain
		edit(&tn)
		return tn
	}
	for _, c := range []struct {
		tier, own string
		want      Tenant
	}{
		{"", "", plain},
		{"priority: background", "", with(func(t *Tenant) { t.Background = true })},
		{"priority: 3", "", with(func(t *Tenant) { t.Below = 6 })},
		{"priority: 9", "", with(func(*Tenant) {})},
		{"priority: background", ", priority: interactive", plain},
		{"floor_tpm: 5", "", with(func(t *Tenant) { t.FloorTPM = 5 })},
		{"floor_tpm: 5000", ", floor_tpm: 990", with(func(t *Tenant) { t.FloorTPM = 990 })},
		{"credit: 500ms", "", with(func(t *Tenant) { t.Credit = time.Second / 2 })},
		{"credit: 500ms", ", credit: 0s", plain},
		{"budgets: [{tokens: 5, per: day}]", "", with(func(t *Tenant) { t.Budgets = []Budget{{Unit: Tokens, Limit: 5, Per: Day}} })},
		{"budgets: [{tokens: 5, per: day}]", ", budgets: [{tokens: 6, per: week}]", with(func(t *Tenant) { t.Budgets = []Budget{{Unit: Tokens, Limit: 6, Per: Week}} })},
		{"budgets: [{tokens: 5, per: day, then: background}]", "", with(func(t *Tenant) { t.Budgets = []Budget{{Unit: Tokens, Limit: 5, Per: Day, Background: true}} })},
		{"budgets: [{tokens: 5, per: day, then: background}]", ", budgets: [{tokens: 5, per: day, then: refuse}]", with(func(t *Tenant) { t.Budgets = []Budget{{Unit: Tokens, Limit: 5, Per: Day}} })},
		{"service_tiers: [flex]", "", with(func(t *Tenant) { t.ServiceTiers = []string{"flex"} })},
		{"service_tiers: [flex]", ", service_tiers: {only: [default], else: lower}", with(func(t *Tenant) {
			t.ServiceTiers = []string{"default"}
			t.LowerTiers = true
		})},
		{"service_tiers: {only: [flex], else: lower}", ", service_tiers: [flex]", with(func(t *Tenant) { t.ServiceTiers = []string{"flex"} })},
		{"budgets: [{usd: 5, per: day}]", ", budgets: []", plain}, // nobody counts usd, so no price is needed
		{"routes: [models]", "", with(func(t *Tenant) { t.Routes = RouteModels })},
		{"routes: [models]", ", routes: [realtime, inference]", with(func(t *Tenant) { t.Routes = RouteInference | RouteRealtime })},
		{"pools: {main: {tpm: 5}}", "", with(func(t *Tenant) { t.Pools = []PoolLimits{{Pool: "main", Limits: terms.Limits{TPM: 5}}} })},
		{"pools: {main: {tpm: 5, rpm: 6}}", ", pools: {main: {rpm: 1, itpm: 7}}", with(func(t *Tenant) { t.Pools = []PoolLimits{{Pool: "main", Limits: terms.Limits{RPM: 1, TPM: 5, ITPM: 7}}} })},
		{"shadow: true", "", with(func(t *Tenant) { t.Shadow = true })},
		{"shadow: true", ", shadow: false", plain},
		{"weight: 3, group: false", "", with(func(t *Tenant) { t.Weight = 3 })},
		{"group: true", "", with(func(t *Tenant) {
			t.Group = "pro"
			t.GroupWeight = 1
		})},
		{"group: true, weight: 3", "", with(func(t *Tenant) {
			t.Group = "pro"
			t.GroupWeight = 3
		})},
		{"tenant_weight: 0.5, weight: 3, group: true", "", with(func(t *Tenant) {
			t.Group = "pro"
			t.GroupWeight = 3
			t.Weight = 0.5
		})},
		{"weight: 3, group: true, tenant_weight: 2", ", tenant_weight: 4", with(func(t *Tenant) {
			t.Group = "pro"
			t.GroupWeight = 3
			t.Weight = 4
		})},
	} {
		if diff := cmp.Diff(c.want, from(c.tier, c.own)); diff != "" {
			t.Errorf("tier {%s}, tenant {%s} (-want +got):\n%s", c.tier, c.own, diff)
		}
	}
}

// TestShadow_File: what a file says holds for its own tenants alone, over their tiers, wherever it stands in the file.
func TestShadow_File(t *testing.T) {
	s := testkit.Must(loadSections(map[string]string{
		"tenants/a.yaml": "tiers: {dark: {shadow: true}, lit: {}}\ntenants:\n  a: {tier: lit, keys: [" + key1 + "]}\n" +
			"  b: {tier: lit, shadow: false, keys: [" + key2 + "]}\nshadow: true\n",
		"tenants/b.yaml": "shadow: false\ntenants: {c: {tier: dark, keys: [" + key3 + "]}}\n",
		"tenants/c.yaml": "tenants: {d: {tier: dark, keys: [sha256:" + strings.Repeat("4", 64) + "]}}\n",
	}))(t)
	for i, want := range []struct {
		shadow bool
		from   string
	}{{true, "tenants/a.yaml:5:9"}, {false, "tenants/a.yaml:4:26"}, {false, "tenants/b.yaml:1:9"}, {true, "tenants/a.yaml:1:24"}} {
		tn := &s.Tenants()[i]
		if got := s.Origin(tn, "shadow"); tn.Shadow != want.shadow || got != want.from {
			t.Errorf("%s: shadow %v from %s, want %v from %s", tn.Name, tn.Shadow, got, want.shadow, want.from)
		}
	}
}

// TestPrice checks which entry wins, whatever their order, and that no digit is lost.
func TestPrice(t *testing.T) {
	s := testkit.Must(loadSections(map[string]string{"llmgov.yaml": goodConfig + `
timezone: America/New_York
prices:
  "gpt-*": {input: 0.1, output: 0.2}
  gpt-4o: {input: 2.5, cached_input: 0, output: 10}
  "gpt-4o-**": {input: 0.000001, output: 9999.999999}
`}))(t)
	for model, want := range map[string][3]int64{
		"gpt-4o":      {2_500_000, 0, 10_000_000},
		"gpt-4o-mini": {1, 1, 9_999_999_999},
		"gpt-5":       {100_000, 100_000, 200_000},
	} {
		if got := s.Price(model); got == nil || [3]int64{got.Input, got.CachedInput, got.Output} != want {
			t.Errorf("Price(%s) = %v; want %v", model, got, want)
		}
	}
	if got := s.Price("o1"); got != nil {
		t.Errorf("Price(o1) = %v, want none", got)
	}
	if s.Location().String() != "America/New_York" {
		t.Errorf("location %v", s.Location())
	}
}

// TestBuild_TemplateProblems gives Build what files could not say.
func TestBuild_TemplateProblems(t *testing.T) {
	cfg := configOf([]string{"m"})
	cfg.Timezone = "Nowhere"
	cfg.StateDir = "a\nb"
	cfg.Prices = []ModelPrice{{"m", Price{Input: -1_000_000}}, {"", Price{}}, {"m", Price{}}}
	p := &cfg.Pools[0]
	p.Concurrency = 4
	p.InteractiveReserve = 4
	p.TicketWait = -1
	p.Adaptive = 9
	p.MinConcurrency = 5
	p.Budgets = []Budget{{Unit: 9, Limit: 5, Per: 9}, {Unit: Tokens, Limit: 0, Per: Day}}
	of := func(name string, edit func(*Tenant)) Tenant {
		tn := tenant(name, name)
		edit(&tn)
		return tn
	}
	_, err := Build(cfg, []Tenant{
		of("a", func(t *Tenant) {
			t.FloorTPM = -1
			t.Credit = time.Hour
		}),
		of("b", func(t *Tenant) {
			t.Budgets = []Budget{{Unit: Tokens, Limit: 1, Per: Day}, {Unit: Tokens, Limit: 2, Per: Day}}
		}),
		of("c", func(t *Tenant) {
			t.Group = "g"
			t.GroupWeight = 0.005
		}),
		of("d", func(t *Tenant) { t.Group = "g" }),
		of("e", func(t *Tenant) { t.GroupWeight = 0.005 }),
		of("f", func(t *Tenant) { t.FloorTPM = 991 }),
	})
	problems, ok := errors.AsType[Problems](err)
	if !ok {
		t.Fatalf("got %v, want problems", err)
	}
	for _, want := range []string{
		`timezone: "Nowhere" is not a time zone`,
		`state_dir: "a\nb" holds control characters`,
		"prices.m.input: -1 is out of range",
		`prices: "" is not a model`,
		`prices: "m" is priced twice`,
		"pools.A.interactive_reserve: 4 leaves background calls no slot of 4; write at most 3",
		`pools.A.adaptive: "9" is not an algorithm of an adaptive limit; use gradient or aimd`,
		"pools.A.min: 5 is above max; write at most 4",
		"pools.A.ticket_wait: -1ns is out of range",
		`pools.A.budgets[0]: "9" is not a budget unit`,
		`pools.A.budgets[0]: "9" is not a budget period`,
		"pools.A.budgets[1].limit: 0 is out of range",
		"tenants.a.floor_tpm: -1 is out of range",
		"tenants.a.credit: 1h0m0s is out of range; use 0s to 1m",
		"tenants.b.budgets[1]: tokens per day is also limited at an earlier entry; keep one",
		`tenants.d.group: "g" has a weight of 1 here and of 0.005 elsewhere; give it one`,
		"tenants.e.group: is empty, so a group weight of 0.005 does nothing",
		`tenants.f.floor_tpm: the floors in pool "A" (tenants: 1) add up to 991, but its tpm less headroom is 990;`,
	} {
		if !strings.Contains(problems.Error(), want) {
			t.Errorf("lacks %q in\n%v", want, problems)
		}
	}
}

// TestBuild_Group fills in the weight of a group.
func TestBuild_Group(t *testing.T) {
	a := tenant("a", "k")
	a.Group = "g"
	s := mustBuild(t, configOf([]string{"m"}), a)
	if got := s.Tenants()[0]; got.GroupWeight != 1 || got.Weight != 1 {
		t.Errorf("weights %v of group, %v in it; want 1 each", got.GroupWeight, got.Weight)
	}
}
