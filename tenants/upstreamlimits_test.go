package tenants

import (
	"slices"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/testkit"
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
	free, _ := s.PriceAt(p, "a", "m")
	paid, _ := s.PriceAt(p, "b", "m")
	want := Price{Input: 2_500_000, CachedInput: 1_000_000, Output: 10_000_000}
	if free != (Price{}) || paid != want || s.DearestPrice(p, 0, "m") != want || s.DearestPrice(p, 0b01, "m") != free {
		t.Errorf("prices are %v and %v, the dearest %v", free, paid, s.DearestPrice(p, 0, "m"))
	}
	if got := p.UpstreamNames(); got != "a (1, price 0 in, 0 out), b (1, price 2.5 in, 10 out)" {
		t.Error(got)
	}
	s = testkit.Must(load("[{name: a, price: {input: 5, output: 1}}, {name: b}]", "prices: {m: {input: 1, output: 2}}\n"))(t)
	p = &s.Pools()[0]
	usual, _ := s.PriceAt(p, "b", "m")
	if usual.Output != 2_000_000 || s.DearestPrice(p, 0, "m") != (Price{Input: 5e6, CachedInput: 5e6, Output: 2e6}) {
		t.Errorf("the model costs %v, at the dearest %v", usual, s.DearestPrice(p, 0, "m"))
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
		{"as their tpm", []PoolUpstream{{TPM: 200_000}, {TPM: 600_000}}, []int64{1, 3}},
		{"in each order", []PoolUpstream{{TPM: 200_000}, {TPM: 700_000, Order: 1}, {TPM: 300_000}, {TPM: 100_000, Order: 1}}, []int64{2, 7, 3, 1}},
		{"which has all of its own", []PoolUpstream{{TPM: 500_000}, {Order: 1}, {TPM: 100_000, Order: 1}}, []int64{1, 1, 1}},
		{"one is written", []PoolUpstream{{TPM: 200_000, Weight: 2}, {TPM: 600_000}}, []int64{2, 1}},
		{"all are written", []PoolUpstream{{TPM: 200_000, Weight: 1}, {TPM: 600_000, Weight: 1}}, []int64{1, 1}},
		{"one has no tpm", []PoolUpstream{{TPM: 200_000}, {RPM: 10}}, []int64{1, 1}},
		{"none has", []PoolUpstream{{}, {}}, []int64{1, 1}},
		{"no more than a weight may be", []PoolUpstream{{TPM: 1}, {TPM: 700_001}, {TPM: 1_000_003}}, []int64{1, 699, 1000}},
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
	pool.Upstreams = []PoolUpstream{{Name: "a", TPM: 200_000}, {Name: "b", TPM: 600_000}}
	cfg.Pools = []Pool{pool}
	snap := testkit.Must(Build(cfg, []Tenant{{Name: "acme", Tier: "t", Keys: []Key{{Hash: HashKey("acme")}}}}))(t)
	if list := snap.Pools()[0].Upstreams; list[0].Weight != 1 || list[1].Weight != 3 {
		t.Errorf("weights %d and %d, want 1 and 3", list[0].Weight, list[1].Weight)
	}
}
