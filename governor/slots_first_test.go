package governor

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A tenant that asks for few slots of those that are due to it has them from the first second on,
// beside one that asks for all: also while nobody knows how long calls run.
func TestSlots_AtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools:   []Pool{{Name: "p", Concurrency: 28, MaxQueue: 1000}},
			Tenants: []Tenant{{Name: "few", Weight: 3000, MaxWait: 20 * time.Second}, {Name: "many", Weight: 1000, MaxWait: 20 * time.Second}},
		})
		var mu sync.Mutex
		rng := rand.New(rand.NewPCG(5, 5))
		random := func(n time.Duration) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(rng.Int64N(int64(n)))
		}
		had := map[string]time.Duration{}
		var group sync.WaitGroup
		end := time.Now().Add(time.Minute)
		ask := func(tenant string) {
			time.Sleep(random(time.Second))
			for time.Now().Before(end) {
				l, rej := g.Acquire(context.Background(), Request{Tenant: tenant, Pool: "p", Input: 10, Output: 10})
				if rej != nil {
					time.Sleep(100 * time.Millisecond)
					continue
				}
				run := 500*time.Millisecond + random(time.Second)
				time.Sleep(run)
				mu.Lock()
				had[tenant] += run
				mu.Unlock()
				l.Settle(Usage{Input: 10, Output: 10})
			}
		}
		for range 6 {
			group.Go(func() { ask("few") })
		}
		for range 100 {
			group.Go(func() { ask("many") })
		}
		group.Wait()
		if few := had["few"].Seconds() / 60; few < 4.5 {
			t.Errorf("who asks for 6 slots of 28, of which 21 are due to it, had %.1f", few)
		} else {
			t.Logf("%.1f of 6", few)
		}
	})
}
