package tenants

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/llmgov/llmgov/internal/testkit"
)

// TestAliases: a client asks by the alias, is granted by it and listed it; the price is of its exact name, else of the
// model that the upstream is sent.
func TestAliases(t *testing.T) {
	s := testkit.Must(loadSections(map[string]string{
		"llmgov.yaml": `upstreams: {o: {base_url: "http://o"}}
pools:
  main: {models: ["gpt-*", {fast: gpt-4o-mini}, {dear: gpt-4o}, {gpt-x: o1}], tpm: 1000}
  side: {models: {smart: o1, quick: o3}, rpm: 10}
default_pool: main
prices:
  "f*": {input: 1, output: 1}
  "gpt-4o*": {input: 2, output: 2}
  dear: {input: 3, output: 3}
  "gpt-*": {input: 4, output: 4}
`,
		"tenants/a.yaml": "tenants: {a: {keys: [" + key1 + "], models: [fast, smart]}, b: {keys: [" + key2 + "]}}\n",
	}))(t)
	if diff := cmp.Diff([]Alias{{"dear", "gpt-4o"}, {"fast", "gpt-4o-mini"}, {"gpt-x", "o1"}}, s.Pools()[0].Aliases); diff != "" {
		t.Errorf("aliases (-want +got):\n%s", diff)
	}
	for _, c := range []struct {
		model, real, pool string
		input             int64 // its price in dollars; 0 for none
	}{
		{"fast", "gpt-4o-mini", "main", 2},
		{"dear", "gpt-4o", "main", 3},
		{"gpt-x", "o1", "main", 0}, // not as gpt-*, which it is not
		{"gpt-4o", "gpt-4o", "main", 2},
		{"gpt-5", "gpt-5", "main", 4},
		{"smart", "o1", "side", 0},
		{"quick", "o3", "side", 0},
		{"o1", "o1", "", 0},
		{"f", "f", "", 1},
	} {
		pool := ""
		if p, ok := s.PoolOf(c.model); ok {
			pool = p.Name
		}
		price, _ := s.Price(c.model)
		if real := s.RealModel(c.model); real != c.real || pool != c.pool || price.Input != c.input*microUSD {
			t.Errorf("%s: is %s in pool %q at %d, want %s in %q at %d", c.model, real, pool, price.Input/microUSD, c.real, c.pool, c.input)
		}
	}
	a, _ := s.TenantByName("a")
	if diff := cmp.Diff([]ModelInfo{{"fast", "main"}, {"smart", "side"}}, s.ModelsFor(a)); diff != "" || a.MayUse("gpt-4o-mini") {
		t.Errorf("a may use what its alias leads to, or its models are (-want +got):\n%s", diff)
	}
	if n := testkit.Allocs(t, 100, func() { s.RealModel("fast") }); n != 0 {
		t.Errorf("RealModel allocates %v times", n)
	}
}

// TestBuild_Aliases: in code, an alias is one of the models without being listed.
func TestBuild_Aliases(t *testing.T) {
	cfg := configOf([]string{"m"}, []string{"n"})
	cfg.Pools[0].Aliases = []Alias{{"z", "m"}, {"a", "m-1"}}
	s := mustBuild(t, cfg, tenant("t", "1", "a"))
	if p, ok := s.PoolOf("a"); !ok || p.Name != "A" || s.RealModel("z") != "m" || p.Aliases[0].Name != "a" || len(cfg.Pools[0].Models) != 1 {
		t.Errorf("pool %+v of %+v", p, cfg.Pools[0])
	}
	cfg.Pools[0].Aliases = []Alias{{"n", "m"}, {"f*", "m"}, {"g", "g"}, {"h", "x"}, {"h", "y"}}
	_, err := Build(cfg, []Tenant{tenant("t", "1")})
	for _, want := range []string{`"n" is also a model of pool "A"`, "pools.A.models.f*: alias", "pools.A.models.g: is an alias of itself", "pools.A.models.h: is an alias twice"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Upstreams are listed in the order in which they get calls, with their weights, which also say how much of the pool's limits
// is each one's.
func TestPool_UpstreamNames(t *testing.T) {
	p := Pool{Upstreams: []PoolUpstream{{Name: "c", Weight: 5, Order: 2}, {Name: "a", Weight: 3}, {Name: "d", Weight: 1, Order: 3}, {Name: "b", Weight: 1}}}
	if got, want := p.UpstreamNames(), "a (3), b (1), then c (5), then d (1)"; got != want {
		t.Errorf("they are listed as %s, want %s", got, want)
	}
	p.Upstreams[0].Models = map[string]string{"m": "mine"}
	if got, want := p.ModelNames("m")+"; "+p.ModelNames("n"), "mine at c, m at a, m at d, m at b; n"; got != want {
		t.Errorf("models are named %s, want %s", got, want)
	}
}

// A tenant that may reach some upstreams only has no part in pools of others; its teams have its list unless they narrow
// it.
func TestTenant_Upstreams(t *testing.T) {
	s := testkit.Must(loadSections(map[string]string{
		"llmgov.yaml": `upstreams: {ptu: {base_url: "http://ptu"}, paid: {base_url: "http://paid"}, own: {base_url: "http://own"}}
pools:
  main: {models: [gpt-4o], tpm: 1000, upstreams: [{name: ptu, models: {gpt-4o: dep}}, {name: paid, order: 1}]}
  side: {models: [llama], rpm: 10, upstream: own}
`,
		"tenants/a.yaml": `tiers: {prod: {upstreams: [ptu, paid]}}
tenants:
  a: {tier: prod, keys: [` + key1 + `], teams: {x: {keys: [` + key2 + `]}, y: {upstreams: [paid], keys: []}}}
  b: {keys: []}
`,
	}))(t)
	for _, want := range []struct {
		tenant, pools, upstreams, names string
	}{
		{"a", "main", "ptu (1), then paid (1)", "dep at ptu, gpt-4o at paid"},
		{"a/x", "main", "ptu (1), then paid (1)", "dep at ptu, gpt-4o at paid"},
		{"a/y", "main", "paid", "gpt-4o"},
		{"b", "main side", "ptu (1), then paid (1)", "dep at ptu, gpt-4o at paid"},
	} {
		who, _ := s.TenantByName(want.tenant)
		var pools []string
		for _, i := range s.PoolsOf(who) {
			pools = append(pools, s.Pools()[i].Name)
		}
		p := s.Pools()[0].For(who)
		if got := strings.Join(pools, " "); got != want.pools || p.UpstreamNames() != want.upstreams || p.ModelNames("gpt-4o") != want.names {
			t.Errorf("%s reaches pools %s, at %s by %s, want %+v", want.tenant, got, p.UpstreamNames(), p.ModelNames("gpt-4o"), want)
		}
	}
	a, _ := s.TenantByName("a")
	if diff := cmp.Diff([]ModelInfo{{"gpt-4o", "main"}}, s.ModelsFor(a)); diff != "" {
		t.Errorf("its models (-want +got):\n%s", diff)
	}
	if _, _, err := s.Ask("a", "llama"); err == nil {
		t.Error("a may ask about a model of a pool of which it reaches no upstream")
	}
}
