package runner_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
