package governor

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// I11: who hides large prompts that are new behind small ones that are cached gets no
// more of what counts in shares than who sends the large ones alone, however long they
// run before it shows.
//
// Catches: shares that are never settled to what was not cached.
func TestI11_MixedPromptsGainNothing(t *testing.T) {
	for _, run := range []time.Duration{2 * time.Second, 20 * time.Second, 60 * time.Second} {
		t.Run(run.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := must(t, cachedWorld(TokenWeights{1000, 0, 1000, 1000, 1000}))
				ctx, stop := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				var mixed, plain atomic.Int64
				send := func(name string, workers int, in, cached, out int64, run time.Duration, sum *atomic.Int64) {
					for range workers {
						wg.Go(func() {
							for ctx.Err() == nil {
								l, rej := g.Acquire(ctx, Request{Tenant: name, Pool: "p", Input: in, Output: out})
								if rej != nil {
									continue
								}
								time.Sleep(run)
								l.Settle(Usage{Input: in, CachedInput: cached, Output: out})
								sum.Add(in - cached + out)
							}
						})
					}
				}
				send("kept", 40, 1000, 1000, 1, 500*time.Millisecond, &mixed)
				send("kept", 200, 5000, 0, 100, run, &mixed)
				send("fresh", 200, 5000, 0, 100, run, &plain)
				time.Sleep(5 * time.Minute)
				mixed.Store(0)
				plain.Store(0)
				time.Sleep(30 * time.Minute) // calls come in waves, of which one more or less may end within it
				if a, b := mixed.Load(), plain.Load(); a > b*102/100 {
					t.Errorf("who mixes gets %d, who does not %d", a, b)
				}
				stop()
				wg.Wait()
			})
		})
	}
}
