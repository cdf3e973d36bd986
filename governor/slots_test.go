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
