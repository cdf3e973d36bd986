package runner_test

import (
	"context"
	mathrand "math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"

	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/testkit"
)

// batcher is a server that batches continuously: it takes every call at once, and first tokens come as soon however many
// there are. Its memory holds so many calls.
type batcher struct {
	mu     sync.Mutex
	holds  int
	flying int
	had    float64 // calls, summed over looks
	looks  float64
}

// serve takes a call through the server, which slows all down the more there are.
func (s *batcher) serve(l governor.Lease) {
	s.mu.Lock()
	s.flying++
	slower := 1 + float64(s.flying)/64
	s.mu.Unlock()
	time.Sleep(200 * time.Millisecond)
	l.Progress(0)
	time.Sleep(time.Duration(4 * slower * float64(time.Second)))
	s.mu.Lock()
	s.flying--
	s.mu.Unlock()
	l.Settle(governor.Usage{Input: 100, Output: 200})
}

// load is what its metrics say.
func (s *batcher) load() governor.Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	return governor.Load{Running: int64(s.flying), Full: float64(s.flying) / float64(s.holds)}
}

// look counts the calls that it has.
func (s *batcher) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.had += float64(s.flying)
	s.looks++
}

// engineFleet runs gateways in front of a server that batches, some of which read its metrics each second, and reports how many calls it
// has in the mean, after a minute and a half.
func engineFleet(t *testing.T, gateways int, reads func(gateway int) bool) (mean float64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 256)
		s := &batcher{holds: 40}
		ctx, end := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for i := range gateways {
			b := f.join(f.config(func(p *governor.Pool) {
				p.Adaptive = adaptive.Gradient
				p.MinConcurrency = 4
				p.MaxQueue = 100
			}))
			group.Go(func() {
				f.each(ctx, &group, 40/float64(gateways), func() {
					if lease, rej := b.Acquire(ctx, governor.Request{Tenant: "a", Pool: "p", Model: "m", Stream: true, Input: 100, Output: 1000}); rej == nil {
						s.serve(lease)
					}
				})
			})
			group.Go(func() {
				time.Sleep(time.Duration(i) * 130 * time.Millisecond)
				for ; ctx.Err() == nil && reads(i); time.Sleep(time.Second) {
					b.ServersLoaded("p", s.load())
				}
			})
		}
		time.Sleep(90 * time.Second)
		for range 30 {
			time.Sleep(time.Second)
			s.look()
		}
		mean = s.had / s.looks
		t.Logf("%d gateways: %.1f calls at a server that holds %d; limits %v", gateways, mean, s.holds, f.limits())
		end()
		group.Wait()
	})
	return mean
}

// TestAdaptiveFleet_Engine: gateways whose pool reads one server that batches keep it as full as its memory allows, together and however many they
// are, and also if only some of them can read its metrics. Without these the limit rises far beyond.
func TestAdaptiveFleet_Engine(t *testing.T) {
	all := func(int) bool { return true }
	for _, c := range []struct {
		what     string
		gateways int
		reads    func(int) bool
	}{
		{"three", 3, all},
		{"eight", 8, all},
		{"three, of which the first reads", 3, func(i int) bool { return i == 0 }},
		{"three, of which the last reads", 3, func(i int) bool { return i == 2 }},
	} {
		t.Run(c.what, func(t *testing.T) {
			if c.gateways == 8 || c.reads(2) {
				testkit.Long(t, "simulates minutes of an adaptive limit")
			}
			if mean := engineFleet(t, c.gateways, c.reads); mean < 0.7*40 || mean > 1.15*40 {
				t.Errorf("a server that holds 40 calls has %.1f", mean)
			}
		})
	}
	t.Run("three, none of which reads", func(t *testing.T) {
		if mean := engineFleet(t, 3, func(int) bool { return false }); mean < 80 {
			t.Errorf("without its metrics the server has %.1f calls: the test shows nothing", mean)
		}
	})
}

// failsafe runs gateways in front of one server, each with an adaptive limiter of failsafe-go, which sees the calls of
// its own gateway, and how long they take in all. Calls wait for it as long as for ours.
func failsafe(t *testing.T, rates []float64, run func(s *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 256)
		s := &server{slots: knee, rng: mathrand.New(mathrand.NewPCG(7, 1)), upTo: time.Now()}
		ctx, end := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for _, rate := range rates {
			limiter := adaptivelimiter.NewBuilder[any]().WithLimits(4, 256, 4).Build()
			group.Go(func() {
				f.each(ctx, &group, rate, func() {
					permit, err := limiter.AcquirePermitWithMaxWait(ctx, 5*time.Second)
					if err == nil {
						s.call(func() {})
						permit.Record()
					}
				})
			})
		}
		run(s)
		end()
		group.Wait()
	})
}

// TestAdaptiveFleet_BesideFailsafe compares gateways that find a limit together with as many limiters of failsafe-go, in front of the same
// server, asked for the same calls. What those do is shown, and nothing asserted of it.
func TestAdaptiveFleet_BesideFailsafe(t *testing.T) {
	testkit.Long(t, "simulates hours of adaptive limits")
	for _, n := range []int{1, 2, 4, 8, 16} {
		measure := func(s *server) service {
			time.Sleep(4 * time.Minute)
			return s.over(10 * time.Minute)
		}
		var best, ours, theirs service
		adaptiveFleet(t, adaptive.Fixed, knee, even(n, 20), func(_ *fleet, s *server) { best = measure(s) })
		adaptiveFleet(t, adaptive.Gradient, knee, even(n, 20), func(_ *fleet, s *server) { ours = measure(s) })
		failsafe(t, even(n, 20), func(s *server) { theirs = measure(s) })
		t.Logf("%2d gateways: fixed %v", n, best)
		t.Logf("%2d gateways: ours  %v: %3.0f %% of the knee, %5.1f %% of the goodput", n, ours, 100*ours.atOnce/knee, 100*ours.perSecond/best.perSecond)
		t.Logf("%2d gateways: their %v: %3.0f %% of the knee, %5.1f %% of the goodput", n, theirs, 100*theirs.atOnce/knee, 100*theirs.perSecond/best.perSecond)
		if wrong := ours.near(best, 0.97); wrong != nil {
			t.Errorf("%d gateways: %v; wrong is %v", n, ours, wrong)
		}
	}
}
