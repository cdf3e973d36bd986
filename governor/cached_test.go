package governor

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
)

// cachedWorld is two equal tenants of which "kept" has nine tenths of each prompt in
// the provider's cache.
func cachedWorld(w TokenWeights) Config {
	return Config{
		Pools: []Pool{{Name: "p", TPM: 600_000, Burst: 10 * time.Second, MaxQueue: 1000, Weights: w}},
		Tenants: []Tenant{
			{Name: "kept", Weight: 1000, MaxWait: time.Hour},
			{Name: "fresh", Weight: 1000, MaxWait: time.Hour},
		},
	}
}

// prompts keeps workers of a tenant sending calls of 1000 tokens in and 100 out, which
// run for a second, and adds what they took to sum.
func prompts(ctx context.Context, g *Governor, wg *sync.WaitGroup, name string, workers int, cached int64, calls *atomic.Int64) {
	for range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				l, rej := g.Acquire(ctx, Request{Tenant: name, Pool: "p", Input: 1000, Output: 100})
				if rej != nil {
					continue
				}
				time.Sleep(time.Second)
				l.Settle(Usage{Input: 1000, CachedInput: cached, Output: 100})
				calls.Add(1)
			}
		})
	}
}

// What came from a cache fills the pool's ledger, if the provider counts it, and counts
// in nobody's share: both tenants get as many tokens that were not cached, 200 a call of
// the one and 1100 of the other, so it gets eleven calls for two. By the ledger, where
// each call is 1100, that is 11/13 of the pool; and where cached input counts nothing
// there, the half of it.
func TestCachedInputCountsInNoShare(t *testing.T) {
	for _, tt := range []struct {
		name        string
		w           TokenWeights
		kept, fresh float64 // of what the pool books
	}{
		{"cached_input: 1", TokenWeights{1000, 1000, 1000, 1000, 1000}, 11. / 13, 2. / 13},
		{"cached_input: 0", TokenWeights{1000, 0, 1000, 1000, 1000}, 1. / 2, 1. / 2},
	} {
		testkit.Virtual(t, tt.name, func(t *testing.T) {
			g := must(t, cachedWorld(tt.w))
			kept, fresh := keptAndFresh(t, g)
			cost := tt.w.cost(Usage{Input: 1000, CachedInput: 900, Output: 100})
			booked := [2]float64{float64(kept * cost), float64(fresh * 1100)}
			all := booked[0] + booked[1]
			t.Logf("%.4f of the limit is used", all/6_000_000)
			near(t, map[string]float64{"kept": booked[0] / all, "fresh": booked[1] / all}, map[string]float64{"kept": tt.kept, "fresh": tt.fresh})
		})
	}
}

// keptAndFresh floods a pool for 13 minutes with prompts of two tenants, of which one has most
// in the cache, and counts the calls of each in the last ten.
func keptAndFresh(t *testing.T, g *Governor) (kept, fresh int64) {
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var a, b atomic.Int64
	prompts(ctx, g, &wg, "kept", 60, 900, &a)
	prompts(ctx, g, &wg, "fresh", 60, 0, &b)
	time.Sleep(3 * time.Minute)
	a.Store(0)
	b.Store(0)
	time.Sleep(10 * time.Minute)
	kept = a.Load()
	fresh = b.Load()
	stop()
	wg.Wait()
	return kept, fresh
}

// A floor is a part of the pool's tokens a minute, as the pool counts them: what
// another has in the cache does not stretch that one's floor over theirs.
//
// Catches: floors paid by what counts in shares.
func TestCachedInputStretchesNoFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := cachedWorld(TokenWeights{1000, 1000, 1000, 1000, 1000})
		cfg.Tenants[0].Floor = 150_000
		cfg.Tenants[1].Floor = 150_000
		g := must(t, cfg)
		kept, fresh := keptAndFresh(t, g)
		// tokens a minute
		a := kept * 110
		b := fresh * 110
		t.Logf("kept %d, fresh %d a minute", a, b)
		if b < 150_000*97/100 {
			t.Errorf("beside a tenant whose prompts are cached, one with a floor of 150000 gets %d", b)
		}
	})
}

// The same where only the tenant with the cache has a floor, below its share of the
// limit: the other is not starved.
func TestCachedFloorBelowTheShareStarvesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := cachedWorld(TokenWeights{1000, 1000, 1000, 1000, 1000})
		cfg.Tenants[0].Floor = 150_000
		g := must(t, cfg)
		kept, fresh := keptAndFresh(t, g)
		a := kept * 110
		b := fresh * 110
		t.Logf("kept %d, fresh %d a minute", a, b)
		if b < 600_000*2/13*9/10 {
			t.Errorf("who has no floor gets %d a minute, want two calls for eleven", b)
		}
	})
}

// I11: who hides large prompts that are new behind small ones that are cached gets no
// more of what counts in shares than who sends the large ones alone, however long they
// run before it shows.
//
// Catches: shares that are never settled to what was not cached.
func TestI11_MixedPromptsGainNothing(t *testing.T) {
	for _, run := range []time.Duration{2 * time.Second, 20 * time.Second, 60 * time.Second} {
		testkit.Virtual(t, run.String(), func(t *testing.T) {
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
	}
}
