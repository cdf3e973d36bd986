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
	"github.com/llmgov/llmgov/internal/testkit"
)

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
