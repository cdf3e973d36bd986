package governor

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Three tenants whose calls run for 1, 10 and 60 seconds in the mean, with long
// tails and in silence, share 32 slots by the time that they occupy them, not by
// calls: over the run, and in each minute. Mutation seen: without replanRunning
// a call is charged for its slot only when it ends, and minutes stray by 8 %.
func TestSlotsAreSharedBySeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots, minutes, warm = 32, 30, 10
		means := []float64{1, 10, 60}
		cfg := Config{Pools: []Pool{{Name: "p", Concurrency: slots, MaxQueue: 1000}}}
		names := []string{"a", "b", "c"}
		for _, name := range names {
			cfg.Tenants = append(cfg.Tenants, Tenant{Name: name, Weight: 1000, MaxWait: time.Hour})
		}
		g := must(t, cfg)
		ctx, stop := context.WithCancel(t.Context())
		var (
			wg       sync.WaitGroup
			mu       sync.Mutex
			occupied [minutes + warm][3]float64 // seconds
			start    = time.Now()
		)
		occupy := func(i int, began, ended time.Time) {
			mu.Lock()
			defer mu.Unlock()
			for m := range occupied {
				from := start.Add(time.Duration(m) * time.Minute)
				if d := sooner(ended, from.Add(time.Minute)).Sub(later(began, from)); d > 0 {
					occupied[m][i] += d.Seconds()
				}
			}
		}
		for i, name := range names {
			for worker := range 40 {
				rng := rand.New(rand.NewPCG(uint64(i), uint64(worker)))
				wg.Go(func() {
					for ctx.Err() == nil {
						l, rej := g.Acquire(ctx, Request{Tenant: name, Pool: "p", Model: "m"})
						if rej != nil {
							continue
						}
						began := time.Now()
						time.Sleep(time.Duration(means[i] * math.Min(10, math.Exp(rng.NormFloat64()-0.5)) * float64(time.Second)))
						l.Settle(Usage{Output: 1})
						occupy(i, began, time.Now())
					}
				})
			}
		}
		time.Sleep((warm + minutes) * time.Minute)
		stop()
		wg.Wait()

		var sum [3]float64
		stray := 0.0
		for _, minute := range occupied[warm:] {
			for i, s := range minute {
				sum[i] += s
				stray += math.Abs(s/(slots*60)-1./3) / 2 / minutes
			}
		}
		t.Logf("a minute's slot-seconds stray by %.1f %%", 100*stray)
		if stray > 0.04 {
			t.Errorf("a minute's slot-seconds stray by %.1f %% from equal shares", 100*stray)
		}
		for i := range names {
			share := sum[i] / (slots * 60 * minutes)
			t.Logf("calls of %v s occupied %.3f of the slots", means[i], share)
			if share < 0.31 || share > 0.36 {
				t.Errorf("calls of %v s occupied %.3f of the slots, want a third", means[i], share)
			}
		}
	})
}

func sooner(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

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
