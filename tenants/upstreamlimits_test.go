package tenants

import (
	"strings"
	"testing"
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
	s, err := load("[{name: a, price: {input: 0, output: 0}}, {name: b, price: {input: 2.5, cached_input: 1, output: 10}}]", "")
	if err != nil {
		t.Fatal(err)
	}
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
	s, err = load("[{name: a, price: {input: 5, output: 1}}, {name: b}]", "prices: {m: {input: 1, output: 2}}\n")
	if err != nil {
		t.Fatal(err)
	}
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
