package governor

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/escrow/slots"
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

// reserveSite is a pool of 20 slots, 4 of which are reserved, that a chat and a batch team share 4 to 1.
func reserveSite(t *testing.T) *Governor {
	t.Helper()
	return must(t, Config{
		Pools: []Pool{{Name: "p", Concurrency: 20, InteractiveReserve: 4, MaxQueue: 1000}},
		Tenants: []Tenant{
			{Name: "chat", Weight: 4000, MaxWait: time.Hour},
			{Name: "batch", Weight: 1000, MaxWait: time.Hour, Background: true},
		},
	})
}

// TestReserve_EntitledIsReceived: beside interactive calls that fill a pool for good, a background team
// receives its share of it, within 3 %, and that is its entitlement. Before, it received nothing.
func TestReserve_EntitledIsReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		rng := rand.New(rand.NewPCG(1, 1))
		shares := sharesUnder(t, reserveSite(t), 8, map[string]int{"chat": 40, "batch": 20}, func(int) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Second/2 + time.Duration(rng.Int64N(int64(time.Second)))
		})
		entitled := shares["batch"].Entitled
		received := shares["batch"].Received
		t.Logf("batch was entitled to %.4f of the pool, and received %.4f", entitled, received)
		if math.Abs(received/entitled-1) > 0.03 || math.Abs(received/0.2-1) > 0.03 {
			t.Errorf("batch was entitled to %.4f of the pool and received %.4f, want 0.2 of both", entitled, received)
		}
	})
}

// sharesUnder has workers of each tenant keep a governor busy, and gives what each tenant received of its first pool and was entitled to,
// as the mean of some minutes behind the first. A call of a worker runs for as long as run says.
func sharesUnder(t *testing.T, g *Governor, minutes int, workers map[string]int, run func(worker int) time.Duration) map[string]TenantShare {
	t.Helper()
	end := time.Now().Add(time.Duration(minutes+2) * time.Minute)
	var calls sync.WaitGroup
	defer calls.Wait()
	for tenant, n := range workers {
		for worker := range n {
			calls.Go(func() {
				for time.Now().Before(end) {
					l, rej := Rejected(g.Acquire(t.Context(), Request{Tenant: tenant, Pool: "p", Model: "m"}))
					if rej != nil {
						t.Errorf("%s is refused: %v", tenant, rej)
						return
					}
					time.Sleep(run(worker))
					l.Settle(Usage{Output: 1})
				}
			})
		}
	}
	time.Sleep(time.Minute)
	means := map[string]TenantShare{}
	for range minutes {
		time.Sleep(time.Minute)
		for _, s := range g.State().Pools[0].Shares {
			mean := means[s.Tenant]
			mean.Received += s.Received / float64(minutes)
			mean.Entitled += s.Entitled / float64(minutes)
			means[s.Tenant] = mean
		}
	}
	return means
}

// TestReserve_Explain: the outlook of a background call shows how many of these may run.
func TestReserve_Explain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := reserveSite(t)
		calls := callsOf{Governor: g}
		defer calls.settle()
		for range 16 {
			if rej := calls.take(t, "batch"); rej != nil {
				t.Fatal(rej)
			}
		}
		o, _ := g.Explain(Request{Tenant: "batch", Pool: "p", Model: "m"})
		i := slices.IndexFunc(o.Checks, func(c Check) bool { return c.Axis == axisBackground })
		if i < 0 || o.Checks[i].Limit != 16 || o.Checks[i].Used != 16 || o.Checks[i].Wait == 0 {
			t.Errorf("with all slots for background calls in use, the checks are %+v", o.Checks)
		}
		o, _ = g.Explain(Request{Tenant: "chat", Pool: "p", Model: "m"})
		if len(o.Checks) != 1 || o.Wait != 0 {
			t.Errorf("an interactive call meets %+v", o)
		}
	})
}

// TestReserve_Wakes: a background call that a tenant comes to be owed because another's call goes at once.
func TestReserve_Wakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools: []Pool{{Name: "p", Concurrency: 10, InteractiveReserve: 4, MaxQueue: 1000}},
			Tenants: []Tenant{
				{Name: "chat", Weight: 1000},
				{Name: "batch", Weight: 1000, MaxWait: time.Hour, Background: true},
			},
		})
		calls := callsOf{Governor: g}
		for _, tenant := range []string{"chat", "batch", "chat", "batch", "chat", "batch"} {
			if rej := calls.take(t, tenant); rej != nil {
				t.Fatal(rej)
			}
		}
		got := make(chan Lease, 1)
		go func() {
			l, _ := g.Acquire(t.Context(), Request{Tenant: "batch", Pool: "p", Model: "m"})
			got <- l
		}()
		synctest.Wait()
		if rej := calls.take(t, "chat"); rej != nil { // of 7 calls that run 3 are the batch's now
			t.Fatal(rej)
		}
		synctest.Wait()
		if len(got) != 1 {
			t.Error("a call waits that its tenant's share and the reserve have room for")
		}
		calls.settle()
		(<-got).Settle(Usage{Output: 1})
	})
}

// TestReserve_ExplainAdaptive: the reserve of an adaptive limit is each process's own, and so is what the outlook shows of it.
func TestReserve_ExplainAdaptive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Shared: true, SharedSlots: true,
			Pools:   []Pool{{Name: "p", Concurrency: 64, Adaptive: adaptive.Gradient, MinConcurrency: 20, InteractiveReserve: 8, MaxQueue: 1000}},
			Tenants: []Tenant{{Name: "batch", Weight: 1000, Background: true}},
		})
		s := g.SharedSlots()[0]
		s.Claim(time.Now())
		s.Allow(time.Now(), time.Now().Add(time.Hour), &slots.Grant{Slots: 4, Open: 4, Others: 16}, nil)
		for range 2 {
			l := admitted(t, g, Request{Tenant: "batch", Pool: "p", Model: "m"})
			defer l.Settle(Usage{Output: 1})
		}
		o, _ := g.Explain(Request{Tenant: "batch", Pool: "p", Model: "m"})
		i := slices.IndexFunc(o.Checks, func(c Check) bool { return c.Axis == axisBackground })
		if i < 0 || o.Checks[i].Limit != 2 || o.Checks[i].Used != 2 || o.Checks[i].Wait == 0 {
			t.Errorf("with both slots for background calls in use here, the checks are %+v", o.Checks)
		}
	})
}
