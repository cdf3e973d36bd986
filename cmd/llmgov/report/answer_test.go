package report

import (
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/adminapi"
	"github.com/llmgov/llmgov/internal/testkit"
)

// A limit that moves is told as it is now, with what it may come to.
func TestAdaptiveLimitIsExplained(t *testing.T) {
	l := adminapi.ExplainedLimit{Of: "p", Kind: "pool", Pool: "p", Key: "concurrency", Axis: "concurrency", Limit: 32, Most: 256}
	if got := valueOf(&l); got != "32 (adaptive, up to 256)" {
		t.Errorf("it is told as %q", got)
	}
}

// Used and asked may be less than the limit, and the call wait all the same: that is said.
func TestPaceIsExplained(t *testing.T) {
	for _, c := range []struct {
		name       string
		kind       string
		left, wait float64
		want       bool
	}{
		{"a pool's pace", "pool", 500, 14, true},
		{"a pool that is full", "pool", 100, 14, false},
		{"a pool with room now", "pool", 500, 0, false},
		{"a tenant's own", "limit", 500, 14, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			used := 0.0
			decides := 0
			a := &Answer{Explanation: &adminapi.Explanation{
				Pool: "p", Decision: &adminapi.Decision{Outcome: "refuse", Limit: &decides},
				Limits: []adminapi.ExplainedLimit{{Of: "p", Kind: c.kind, Pool: "p", Key: "tpm", Asked: 400, Used: &used, Left: &c.left, Wait: &c.wait}},
			}}
			var out strings.Builder
			testkit.OK(t, a.Write(&out))
			if got := strings.Contains(out.String(), "\nNote: pool p has room in its minute"); got != c.want {
				t.Errorf("noted %v, want %v:\n%s", got, c.want, out.String())
			}
		})
	}
}

// A wait is rounded up: who comes back too early is refused again.
func TestSeconds(t *testing.T) {
	for s, want := range map[float64]string{
		0: "-", 0.0001: "0.1s", 0.5: "0.5s", 1.01: "1.1s", 9.99: "10.0s", 10: "10s", 59.1: "60s", 119.2: "120s", 120: "2m0s", 3661.5: "1h1m2s",
	} {
		if got := seconds(s); got != want {
			t.Errorf("%v is %s, want %s", s, got, want)
		}
	}
}

// What explain shows of a limit over another time: of a bucket it is not the amount in the time, but as much as it lets go at once.
func TestValueOf_Windows(t *testing.T) {
	for axis, want := range map[string]string{
		"tokens per 5h":                "1200 tokens per 5h",
		"tokens per 5h fixed_window":   "1200 tokens per 5h fixed_window",
		"tokens per 5h gcra":           "1200 at once of tokens per 5h gcra",
		"requests per 5h token_bucket": "1200 at once of requests per 5h token_bucket",
	} {
		if got := valueOf(&adminapi.ExplainedLimit{Of: "t", Kind: adminapi.KindLimit, Axis: axis, Limit: 1200}); got != want {
			t.Errorf("of %s it is %q, want %q", axis, got, want)
		}
	}
}

// An upstream that has room and is not chosen has a reason, too: which comes first depends on the one that is.
func TestUpstreamsWithRoom(t *testing.T) {
	list := []adminapi.ExplainedUpstream{{Name: "a"}, {Name: "b"}, {Name: "c", Order: 1}}
	for i := range list {
		list[i].State = adminapi.UpstreamRoom
	}
	for chosen, want := range map[string]string{
		"a": "the call goes here; has room; it is the turn of a; has room; comes after order 0",
		"c": "has room, but earlier calls wait for it; has room, but earlier calls wait for it; the call goes here",
		"":  "has room; has room; has room",
	} {
		a := &Answer{Explanation: &adminapi.Explanation{Upstreams: list, Decision: &adminapi.Decision{Upstream: chosen}}}
		var got []string
		for i := range list {
			got = append(got, a.stateOf(&list[i]))
		}
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("with %q chosen: %s", chosen, text)
		}
	}
}
