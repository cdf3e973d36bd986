package governor

import (
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
					l, rej := g.Acquire(t.Context(), Request{Tenant: tenant, Pool: "p", Model: "m"})
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
