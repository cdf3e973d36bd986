package simulate

import (
	"context"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// TestAdaptive_Goals: an adaptive limit has as many calls in flight as the server serves at once, and does nearly as much as
// the best fixed limit. First tokens come nearly as early as where none waits at the server. With a limit that waited for the end
// of each round a1's came after 2 times as long, and after 3 times where it took the queue for a slower server.
func TestAdaptive_Goals(t *testing.T) {
	const atRest = 0.345 // seconds, the 95th percentile of 250 ms to 350 ms
	for name, late := range map[string]Value{"a1": 1.7, "a2": 1.6, "a3": 1.5, "a4": 1.35} {
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

// playNamed plays a named scenario for a while, and leaves what happened.
func playNamed(t *testing.T, name string, until time.Duration) *world {
	t.Helper()
	s := testkit.Must(scenario.Find(name))(t)
	s.Duration = until
	w := newWorld(newPlan(&s, 1), alone)
	testkit.OK(t, w.run(context.Background(), 20_000, func(time.Duration) {}))
	return w
}

// inFlight is how many calls run from a time to a time, in the mean and at most.
func (w *world) inFlight(from, to time.Duration) (mean float64, most int64) {
	last := from
	running := int64(0)
	count := func(at time.Duration) {
		at = min(at, to)
		if at > last {
			mean += float64(running) * (at - last).Seconds() / (to - from).Seconds()
			most = max(most, running)
			last = at
		}
	}
	mostRunning(&w.trace, func(at time.Duration, now int64) {
		count(at)
		running = now
	})
	count(to)
	return mean, most
}

// TestAdaptive_HeatMoves: one of four gateways gets nine tenths of the calls, and uses the slots that the others leave. A few
// seconds after the calls have moved to another gateway, that one does.
func TestAdaptive_HeatMoves(t *testing.T) {
	t.Parallel()
	const moved = 10 * time.Minute
	w := playNamed(t, "a2", moved+time.Minute)
	for _, c := range []struct {
		what     string
		from, to time.Duration
		least    float64
	}{
		{"at the first gateway", moved - 3*time.Minute, moved, 0.95},
		{"as they move", moved, moved + 5*time.Second, 0.7},
		{"at the second gateway", moved + 5*time.Second, moved + time.Minute, 0.95},
	} {
		mean, most := w.inFlight(c.from, c.to)
		t.Logf("%s: %.1f in the mean, %d at most", c.what, mean, most)
		if knee := float64(w.Pool.Knee); mean < c.least*knee || mean > 1.1*knee {
			t.Errorf("%s %.1f calls are in flight, want %.0f %% to 110 %% of %.0f", c.what, mean, 100*c.least, knee)
		}
	}
}

// TestAdaptive_Joins: two gateways become three and four. Those that join take over the limit of the others and their part of it, and
// never are more calls in flight than the limit has room for.
func TestAdaptive_Joins(t *testing.T) {
	t.Parallel()
	const third, fourth = 8 * time.Minute, 12 * time.Minute
	w := playNamed(t, "a3", fourth+time.Minute)
	knee := float64(w.Pool.Knee)
	for _, join := range []time.Duration{third, fourth} {
		mean, most := w.inFlight(join-10*time.Second, join+30*time.Second)
		t.Logf("gateway joins at %v: %.1f in the mean, %d at most", join, mean, most)
		if mean < 0.95*knee || float64(most) > 1.1*knee {
			t.Errorf("while a gateway joins at %v there are %.1f calls in flight, at most %d, of a knee of %.0f", join, mean, most, knee)
		}
	}
	for _, c := range []struct {
		joined time.Duration
		nodes  int
	}{{third, 3}, {fourth, 4}} {
		var all, served float64
		for _, e := range w.trace.Events {
			if e.Kind != Admitted || e.At < c.joined+5*time.Second || e.At >= c.joined+35*time.Second {
				continue
			}
			all++
			if int(w.trace.Requests[e.Request].Node) == c.nodes-1 {
				served++
			}
		}
		t.Logf("of %.0f calls %.0f begin at the gateway that joined at %v", all, served, c.joined)
		if part := served / all; part < 0.7/float64(c.nodes) {
			t.Errorf("gateway %d begins %.0f %% of the calls from 5 s to 35 s after it joined", c.nodes, 100*part)
		}
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

// TestNodes_Slots: nodes never use more slots than there are, also when one is cut off from the store, whose calls run on, and another
// crashes. What is left of the nodes uses them all.
func TestNodes_Slots(t *testing.T) {
	t.Parallel()
	w := worldOf(t, `
duration: 3m
pool: {tpm: 0, concurrency: 20}
nodes: {near: 1ms, far: 50ms, dies: 20ms}
service: 5s
tenants: [{name: a, load: {kind: open, requests_per_second: 8}}]
events:
  - {at: 60s, partition: far, for: 30s}
  - {at: 120s, crash: dies, for: 30s}
`)
	for _, c := range []struct {
		when     string
		from, to time.Duration
	}{
		{"with three nodes", 30 * time.Second, 60 * time.Second},
		{"while one is cut off", 75 * time.Second, 90 * time.Second},
		{"with three again", 95 * time.Second, 120 * time.Second},
		{"after one has crashed", 150 * time.Second, 3 * time.Minute},
	} {
		mean, most := w.inFlight(c.from, c.to)
		if mean < 19 || most > 20 {
			t.Errorf("%s %.1f calls run in the mean and %d at most, want 19 to 20", c.when, mean, most)
		}
	}
	if most := mostRunning(&w.trace, nil); most > 20 {
		t.Errorf("%d calls run at once with 20 slots", most)
	}
}
