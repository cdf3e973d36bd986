package tenants

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// A pool without a limit has the sum of its upstreams'; where some of these have none, and it has none, nobody knows how much it has.
func TestUpstreamLimits(t *testing.T) {
	load := func(rest string) (*Snapshot, error) {
		return loadSections(map[string]string{
			"llmgov.yaml": "upstreams: {a: {base_url: \"http://a\"}, b: {base_url: \"http://b\"}}\npools:\n  p:\n    models: [m]\n" + rest,
		})
	}
	for text, want := range map[string][3]int64{
		"    upstreams: [{name: a, tpm: 200000, concurrency: 3}, {name: b, tpm: 600000, order: 1, concurrency: 4}]\n": {800_000, 0, 7},
		"    tpm: 500000\n    upstreams: [{name: a, tpm: 200000, rpm: 10}, {name: b, rpm: 20}]\n":                     {500_000, 30, 0},
	} {
		s, err := load(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if p := s.Pools()[0]; [3]int64{p.TPM, p.RPM, p.Concurrency} != want {
			t.Errorf("%s: limits %d, %d, %d, want %v", text, p.TPM, p.RPM, p.Concurrency, want)
		}
	}
	s, err := load("    upstreams: [{name: a, tpm: 200000}, {name: b, tpm: 600000, order: 1}]\n")
	if err != nil || s.Pools()[0].UpstreamNames() != "a (1, tpm 200000), then b (1, tpm 600000)" {
		t.Errorf("%v, %s", err, s.Pools()[0].UpstreamNames())
	}
	for text, want := range map[string]string{
		"    rpm: 9\n    upstreams: [{name: a, tpm: 200}, {name: b}]\n":                   "3:3: pools.p: has no tpm, and neither has its upstream \"b\", while others have one, so nothing says how much there is to share; write tpm in either",
		"    upstreams: [{name: a, tpm: -1}, {name: b}]\n":                                "-1",
		"    tpm: 9\n    upstreams: [{name: a, concurency: 1}]\n":                         "did you mean \"concurrency\"?",
		"    on_store_loss: open\n    upstreams: [{name: a, tpm: 5}]\nstore: redis://h\n": "is open, which does not go together with limits of upstreams yet",
	} {
		_, err := load(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v\nwant %s", text, err, want)
		}
	}
}

// Rates of cache writes that are left out are Anthropic's only where its models are priced, or where one of the two is there.
func TestPrices_CacheWrites(t *testing.T) {
	s := testkit.Must(loadSections(map[string]string{
		"llmgov.yaml": `
upstreams: {a: {base_url: "http://a", kind: anthropic}, o: {base_url: "http://o"}}
pools:
  a: {models: [opus, "haiku-*", {smart: opus}], upstreams: [{name: a}], tpm: 9}
  o: {models: [m, n, hour, "anthropic.claude-*", equal], upstreams: [{name: o}], tpm: 9}
  b: {models: [other], upstreams: [{name: o, price: {input: 1, output: 1}}], tpm: 9}
  c: {models: [claude-3], upstreams: [{name: o, price: {input: 1, output: 1, above: [{context: 1, input: 2}]}}], tpm: 9}
prices:
  m: {input: 4, output: 1, above: [{context: 1, input: 8}]}
  n: {input: 4, output: 1, cache_write: 5}
  hour: {input: 4, output: 1, cache_write_1h: 9}
  opus: {input: 4, output: 1}
  "haiku-4*": {input: 4, output: 1}
  smart: {input: 4, output: 1}
  "anthropic.claude-*": {input: 4, output: 1, above: [{context: 1, input: 8}]}
  "equal": {input: 4, output: 1, cache_write: 4, cache_write_1h: 4}
`,
	}))(t)
	for model, want := range map[string][2]int64{
		"m": {4, 4}, "n": {5, 8}, "hour": {5, 9}, "opus": {5, 8}, "haiku-4-5": {5, 8}, "smart": {5, 8}, "anthropic.claude-x": {5, 8}, "equal": {4, 4},
	} {
		p := s.Price(model)
		if want[0] *= 1e6; p.CacheWrite != want[0] || p.CacheWriteHour != want[1]*1e6 {
			t.Errorf("%s: %d and %d", model, p.CacheWrite, p.CacheWriteHour)
		}
		if len(p.Above) > 0 && (p.Above[0].CacheWrite != 2*want[0] || p.Above[0].CacheWriteHour != 2e6*want[1]) {
			t.Errorf("%s: %d and %d of long prompts", model, p.Above[0].CacheWrite, p.Above[0].CacheWriteHour)
		}
	}
	if most := s.Price("m").Most(100, 0, ""); most != 8*100 {
		t.Errorf("100 tokens may cost %d", most)
	}
	for i := range s.Pools() {
		if p := s.Pools()[i].Upstreams[0].Price; p != nil && p.CacheWriteHour != int64(i)*1_000_000 {
			t.Errorf("at the upstream of pool %s it is %d", s.Pools()[i].Name, p.CacheWriteHour)
		}
	}
}

// An upstream of a pool may have a price, which counts for all models there; a pool all of whose upstreams have one needs no other.
func TestUpstreamPrices(t *testing.T) {
	load := func(ups, rest string) (*Snapshot, error) {
		return loadSections(map[string]string{
			"llmgov.yaml": "upstreams: {a: {base_url: \"http://a\"}, b: {base_url: \"http://b\"}}\npools:\n  p:\n    models: [m]\n    tpm: 9\n    upstreams: " + ups +
				"\n    budgets: [{usd: 5, per: day}]\n" + rest,
		})
	}
	s := testkit.Must(load("[{name: a, price: {input: 0, output: 0}}, {name: b, price: {input: 2.5, cached_input: 1, output: 10}}]", ""))(t)
	p := &s.Pools()[0]
	free := s.PriceAt(p, "a", "m")
	paid := s.PriceAt(p, "b", "m")
	want := Price{
		Input: 2_500_000, CachedInput: 1_000_000, CacheWrite: 2_500_000, CacheWriteHour: 2_500_000, Output: 10_000_000,
		AudioInput: 2_500_000, AudioOutput: 10_000_000, ImageInput: 2_500_000, ImageOutput: 10_000_000,
	}
	if diff := cmp.Diff([]Price{{}, want}, []Price{*free, *paid}); diff != "" {
		t.Errorf("prices (-want +got):\n%s", diff)
	}
	if s.DearestPrice(p, 0, "m", 1, 1, "") != paid || s.DearestPrice(p, 0b01, "m", 1, 1, "") != free {
		t.Error("the dearest is not that of b, or not that of a alone")
	}
	if got := p.UpstreamNames(); got != "a (1, price 0 in, 0 out), b (1, price 2.5 in, 10 out)" {
		t.Error(got)
	}
	s = testkit.Must(load("[{name: a, price: {input: 5, output: 1}}, {name: b}]", "prices: {m: {input: 1, output: 2}}\n"))(t)
	p = &s.Pools()[0]
	usual := s.PriceAt(p, "b", "m")
	if usual.Output != 2_000_000 || s.DearestPrice(p, 0, "m", 0, 1, "") != usual || s.DearestPrice(p, 0, "m", 1, 0, "") != s.PriceAt(p, "a", "m") {
		t.Errorf("the model costs %v, and the dearest does not go by what a call takes", usual)
	}
	for text, want := range map[string]string{
		"[{name: a, price: {input: 5, output: 1}}, {name: b}]": "counts usd, but pool \"p\" serves models without a price: \"m\"; add them to prices",
		"[{name: a, price: {input: 5}}]":                       "has no output; write US dollars a million tokens, or 0 where it is free",
		"[{name: a, price: 5}]":                                "price",
		"[{name: a, price: {input: 5, outptu: 1}}]":            "did you mean \"output\"?",
		"[{name: a, price: {input: 20000, output: 1}}]":        "20000",
	} {
		_, err := load(text, "")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v\nwant %s", text, err, want)
		}
	}
}

// Weights that are left out follow the limits, where these say something of all upstreams of an order; so they are used up together.
func TestUpstreamWeights_LeftOut(t *testing.T) {
	for _, tc := range []struct {
		name string
		list []PoolUpstream
		want []int64
	}{
		{"as their tpm", []PoolUpstream{{Limits: terms.Limits{TPM: 200_000}}, {Limits: terms.Limits{TPM: 600_000}}}, []int64{1, 3}},
		{"in each order", []PoolUpstream{{Limits: terms.Limits{TPM: 200_000}}, {Limits: terms.Limits{TPM: 700_000}, Order: 1}, {Limits: terms.Limits{TPM: 300_000}}, {Limits: terms.Limits{TPM: 100_000}, Order: 1}}, []int64{2, 7, 3, 1}},
		{"which has all of its own", []PoolUpstream{{Limits: terms.Limits{TPM: 500_000}}, {Order: 1}, {Limits: terms.Limits{TPM: 100_000}, Order: 1}}, []int64{1, 1, 1}},
		{"one is written", []PoolUpstream{{Limits: terms.Limits{TPM: 200_000}, Weight: 2}, {Limits: terms.Limits{TPM: 600_000}}}, []int64{2, 1}},
		{"all are written", []PoolUpstream{{Limits: terms.Limits{TPM: 200_000}, Weight: 1}, {Limits: terms.Limits{TPM: 600_000}, Weight: 1}}, []int64{1, 1}},
		{"one has no tpm", []PoolUpstream{{Limits: terms.Limits{TPM: 200_000}}, {Limits: terms.Limits{RPM: 10}}}, []int64{1, 1}},
		{"none has", []PoolUpstream{{}, {}}, []int64{1, 1}},
		{"no more than a weight may be", []PoolUpstream{{Limits: terms.Limits{TPM: 1}}, {Limits: terms.Limits{TPM: 700_001}}, {Limits: terms.Limits{TPM: 1_000_003}}}, []int64{1, 699, 1000}},
	} {
		p := Pool{Upstreams: tc.list}
		p.defaultWeights()
		var got []int64
		for i := range p.Upstreams {
			got = append(got, p.Upstreams[i].Weight)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// The same when a config is put in force.
func TestUpstreamWeights_Built(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Upstreams = []Upstream{{Name: "a", BaseURL: "http://a/v1"}, {Name: "b", BaseURL: "http://b/v1"}}
	pool := DefaultPool("p")
	pool.Models = []string{"m"}
	pool.Upstreams = []PoolUpstream{{Name: "a", Limits: terms.Limits{TPM: 200_000}}, {Name: "b", Limits: terms.Limits{TPM: 600_000}}}
	cfg.Pools = []Pool{pool}
	snap := testkit.Must(Build(cfg, []Tenant{{Name: "acme", Tier: "t", Keys: []Key{{Hash: HashKey("acme")}}}}))(t)
	if list := snap.Pools()[0].Upstreams; list[0].Weight != 1 || list[1].Weight != 3 {
		t.Errorf("weights %d and %d, want 1 and 3", list[0].Weight, list[1].Weight)
	}
}

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
		price := s.Price(c.model)
		if price == nil {
			price = &Price{}
		}
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

// Limits in their long form are those of the short keys, at every place where they may be.
func TestLongForm(t *testing.T) {
	load := func(pool, upstream, tenant string) *Snapshot {
		return testkit.Must(loadSections(map[string]string{
			"llmgov.yaml": "upstreams: {u: {base_url: \"http://h\"}}\npools: {p: {models: [m], " + pool + ", upstreams: [{name: u, " + upstream + "}]}}\n",
			"tenants/a.yaml": "tiers: {x: {" + tenant + "}}\ntenants: {a: {" + tenant + ", pools: {p: {" + tenant + "}}, keys: [\"sha256:" + strings.Repeat("1", 64) +
				"\"], teams: {b: {" + tenant + ", keys: [\"sha256:" + strings.Repeat("2", 64) + "\"]}}}}\n",
		}))(t)
	}
	short := load("rpm: 1, tpm: 2, itpm: 3, otpm: 4, concurrency: 5", "tpm: 2, otpm: 4, concurrency: 3", "concurrency: 7, limits: [{output_tokens: 9, per: 1h}]")
	long := load("limits: [{requests: 1, per: 1m}, {tokens: 2, per: 60s}, {input_tokens: 3, per: 1m, shape: rolling_window}, {output_tokens: 4, per: 1m}, {concurrency: 5}]",
		"limits: [{tokens: 2, per: 1m}, {output_tokens: 4, per: 1m}, {concurrency: 3}]", "limits: [{concurrency: 7}, {output_tokens: 9, per: 1h}]")
	if diff := cmp.Diff(short.Pools(), long.Pools()); diff != "" {
		t.Errorf("pools (-short +long):\n%s", diff)
	}
	if short.Hash() != long.Hash() {
		t.Errorf("tenants are %+v and %+v", short.Tenants(), long.Tenants())
	}
	a := &long.Tenants()[0]
	for key, want := range map[string]string{"concurrency": "tenants/a.yaml:2:24", "limits[0]": "tenants/a.yaml:2:42"} {
		for _, l := range long.Limits(a, &long.Pools()[0]) {
			if l.Key == key && l.From != want {
				t.Errorf("%s is from %s, want %s", key, l.From, want)
			}
		}
	}
	if from := long.PoolOrigin(&long.Pools()[0], "itpm"); from == "" {
		t.Error("nobody knows where itpm is from")
	}
}
