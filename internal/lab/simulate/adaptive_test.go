package simulate

import (
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// TestAdaptive_Goals: an adaptive limit has as many calls in flight as the server serves at once, and does nearly as much as
// the best fixed limit. First tokens come nearly as early as where none waits at the server. With a limit that waited for the end
// of each round a1's came after 2 times as long, and after 3 times where it took the queue for a slower server, each with runs that were known;
// with runs that the governor learns they come after 2.2 times as long.
func TestAdaptive_Goals(t *testing.T) {
	const atRest = 0.345 // seconds, the 95th percentile of 250 ms to 350 ms
	for name, late := range map[string]Value{"a1": 2.3, "a2": 1.6, "a3": 1.5, "a4": 1.35} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testkit.Must(scenario.Find(name))(t)
			if len(s.Nodes) > 0 {
				testkit.Long(t, "simulates minutes of many gateways")
			}
			f := figuresOf(t, s)
			s.Pool.Adaptive = adaptive.Fixed
			s.Pool.Concurrency = s.Pool.Knee
			best := figuresOf(t, s)
			t.Logf("%.4f of the knee, %.4f of the goodput, first token p95 %.3f s", f.Utilization, f.Admitted/best.Admitted, f.FirstTokenP95)
			if f.Utilization < 0.95 || f.Utilization > 1.1 {
				t.Errorf("%.4f of the knee is in flight, want 0.95 to 1.10", f.Utilization)
			}
			if f.Admitted < 0.97*best.Admitted {
				t.Errorf("%.0f calls are served, and %.0f with a limit of %d", f.Admitted, best.Admitted, s.Pool.Knee)
			}
			if f.FirstTokenP95 > late*atRest {
				t.Errorf("first token p95 is %.3f s, want at most %.3f s", f.FirstTokenP95, late*atRest)
			}
		})
	}
}

func figuresOf(t *testing.T, s scenario.Scenario) Figures {
	t.Helper()
	res := testkit.Must(Run(t.Context(), s, Options{Seeds: []uint64{1}, CheckEvery: 20_000}))(t)
	return res.Figures
}

// TestServer: calls beyond the knee wait at the server, and with a knee of 0 none is begun.
func TestServer(t *testing.T) {
	t.Parallel()
	w := worldOf(t, `
duration: 2m
pool: {tpm: 0, concurrency: 6, knee: 2}
classes: [{share: 1, median: 90, sigma: 0, max: 90, tokens_per_second: 100, first_token: 100ms}]
tenants: [{name: a, load: {kind: backlogged, workers: 8}}]
events:
  - {at: 60s, knee: 0}
  - {at: 90s, knee: 3}
`)
	var minutes [4]int // halves of a minute
	sent := map[int32]time.Duration{}
	for _, e := range w.trace.Events {
		switch e.Kind {
		case Admitted:
			sent[e.Request] = e.At
		case First:
			minutes[e.At/(30*time.Second)]++
			if at := e.At; at > 10*time.Second && at < 60*time.Second && (at-sent[e.Request]) < 2*time.Second {
				t.Fatalf("at %v a call had its first token %v after it was sent; four were before it, two at once for a second each", at, at-sent[e.Request])
			}
		}
	}
	if minutes != [4]int{60, 60, 0, 90} {
		t.Errorf("in half minutes %v calls were begun, want 2 a second, none, and 3", minutes)
	}
}

// TestServer_CutOff: calls of a process that crashes are no more at the server, neither those that it serves nor those that wait there.
func TestServer_CutOff(t *testing.T) {
	t.Parallel()
	w := worldOf(t, `
duration: 100s
pool: {tpm: 0, concurrency: 12, knee: 4}
nodes: {stays: 1ms, dies: 1ms}
classes: [{share: 1, median: 90, sigma: 0, max: 90, tokens_per_second: 100, first_token: 100ms}]
tenants: [{name: a, load: {kind: backlogged, workers: 12}}]
events: [{at: 20s, crash: dies, for: 10m}]
`)
	begun := 0
	for _, e := range w.trace.Events {
		if e.Kind == First && e.At >= 90*time.Second {
			begun++
		}
	}
	if begun < 38 || w.server.running > 4 || len(w.server.queue) > 8 {
		t.Errorf("in ten seconds %d calls are begun, %d run and %d wait at the server; want 4 each second", begun, w.server.running, len(w.server.queue))
	}
}
