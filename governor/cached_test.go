package governor

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
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
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := must(t, cachedWorld(tt.w))
				kept, fresh := keptAndFresh(t, g)
				cost := tt.w.cost(Usage{Input: 1000, CachedInput: 900, Output: 100})
				booked := [2]float64{float64(kept * cost), float64(fresh * 1100)}
				all := booked[0] + booked[1]
				t.Logf("%.4f of the limit is used", all/6_000_000)
				near(t, map[string]float64{"kept": booked[0] / all, "fresh": booked[1] / all}, map[string]float64{"kept": tt.kept, "fresh": tt.fresh})
			})
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
