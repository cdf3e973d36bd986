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
