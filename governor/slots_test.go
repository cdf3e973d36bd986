package governor

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/escrow/slots"
	"github.com/llmgov/llmgov/governor/refusal"
	"github.com/llmgov/llmgov/internal/test/testkit"
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
			cfg.Tenants = append(cfg.Tenants, Tenant{Name: name, Weight: 1, MaxWait: time.Hour})
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
			Tenants: []Tenant{{Name: "few", Weight: 3, MaxWait: 20 * time.Second}, {Name: "many", Weight: 1, MaxWait: 20 * time.Second}},
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
			{Name: "chat", Weight: 4, MaxWait: time.Hour},
			{Name: "batch", Weight: 1, MaxWait: time.Hour, Background: true},
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
					l, rej := Refused(g.Acquire(t.Context(), Request{Tenant: tenant, Pool: "p", Model: "m"}))
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

// TestReserve_Explain: the forecast of a background call shows how many of these may run.
func TestReserve_Explain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := reserveSite(t)
		calls := callsOf{Governor: g}
		defer calls.settle()
		calls.fill(t, slices.Repeat([]string{"batch"}, 16)...)
		o, _ := g.Explain(Request{Tenant: "batch", Pool: "p", Model: "m"})
		i := slices.IndexFunc(o.Checks, func(c Check) bool { return c.Axis == refusal.AxisBackground })
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
				{Name: "chat", Weight: 1},
				{Name: "batch", Weight: 1, MaxWait: time.Hour, Background: true},
			},
		})
		calls := callsOf{Governor: g}
		calls.fill(t, "chat", "batch", "chat", "batch", "chat", "batch")
		got := make(chan Lease, 1)
		go func() {
			l, _ := g.Acquire(t.Context(), Request{Tenant: "batch", Pool: "p", Model: "m"})
			got <- l
		}()
		synctest.Wait()
		calls.fill(t, "chat") // of 7 calls that run 3 are the batch's now
		synctest.Wait()
		if len(got) != 1 {
			t.Error("a call waits that its tenant's share and the reserve have room for")
		}
		calls.settle()
		(<-got).Settle(Usage{Output: 1})
	})
}

// TestReserve_ExplainAdaptive: the reserve of an adaptive limit is each process's own, and so is what the forecast shows of it.
func TestReserve_ExplainAdaptive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Shared: true, SharedSlots: true,
			Pools:   []Pool{{Name: "p", Concurrency: 64, Adaptive: adaptive.Gradient, MinConcurrency: 20, InteractiveReserve: 8, MaxQueue: 1000}},
			Tenants: []Tenant{{Name: "batch", Weight: 1, Background: true}},
		})
		s := g.SharedSlots()[0]
		s.Claim(time.Now())
		s.Allow(time.Now(), time.Now().Add(time.Hour), &slots.Grant{Slots: 4, Others: 16}, nil)
		for range 2 {
			l := admitted(t, g, Request{Tenant: "batch", Pool: "p", Model: "m"})
			defer l.Settle(Usage{Output: 1})
		}
		o, _ := g.Explain(Request{Tenant: "batch", Pool: "p", Model: "m"})
		i := slices.IndexFunc(o.Checks, func(c Check) bool { return c.Axis == refusal.AxisBackground })
		if i < 0 || o.Checks[i].Limit != 2 || o.Checks[i].Used != 2 || o.Checks[i].Wait == 0 {
			t.Errorf("with both slots for background calls in use here, the checks are %+v", o.Checks)
		}
	})
}

// softCapSite is a pool of 20 slots, of which a tenant may have 12 once 10 are in use. A heavy tenant with a team shares it with a light one.
func softCapSite(t *testing.T) *Governor {
	t.Helper()
	return must(t, Config{
		Pools: []Pool{{Name: "p", Concurrency: 20, SoftCapPPM: 600_000, MaxQueue: 1000}},
		Tenants: []Tenant{
			{Name: "heavy", Weight: 9, MaxWait: time.Hour},
			{Name: "heavy/team", Weight: 1},
			{Name: "light", Weight: 1, MaxWait: time.Hour},
		},
	})
}

// TestSoftCap_Explained: a call that its tenant's soft cap keeps out is told so, and so is who asks why; another tenant finds a slot at once.
func TestSoftCap_Explained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := softCapSite(t)
		calls := callsOf{Governor: g}
		defer calls.settle()
		calls.fill(t, slices.Repeat([]string{"heavy/team"}, 12)...)
		rej := calls.take(t, "heavy/team")
		if rej == nil || rej.Limit != 12 || rej.Used != 12 || rej.Reason != ReasonConcurrency || !strings.Contains(rej.Error(), "soft_cap") {
			t.Fatalf("at the cap a call gets %+v", rej)
		}
		o, _ := g.Explain(Request{Tenant: "heavy/team", Pool: "p", Model: "m"})
		i := slices.IndexFunc(o.Checks, func(c Check) bool { return c.Axis == refusal.AxisSoftCap })
		if i < 0 || o.Checks[i].Limit != 12 || o.Checks[i].Used != 12 || o.Refused == nil || !o.Checks[i].Of(o.Refused) {
			t.Errorf("at the cap the checks are %+v, refused by %+v", o.Checks, o.Refused)
		}
		calls.fill(t, "light")
	})
}

// TestSoftCap_EntitledIsReceived: a tenant at its soft cap, and the one that has what is left, both receive what they are
// entitled to within 3 %: the cap is policy, and no unfairness.
func TestSoftCap_EntitledIsReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shares := sharesUnder(t, softCapSite(t), 4, map[string]int{"heavy": 40, "light": 30}, func(worker int) time.Duration {
			return time.Second + time.Duration(17*worker)*time.Millisecond
		})
		for tenant, want := range map[string]float64{"heavy": 0.6, "light": 0.4} {
			got := shares[tenant]
			if math.Abs(got.Received/want-1) > 0.03 || math.Abs(got.Entitled/want-1) > 0.03 {
				t.Errorf("%s received %.4f of the pool and was entitled to %.4f, want %.1f of both", tenant, got.Received, got.Entitled, want)
			}
		}
	})
}

// TestSoftCap_Adaptive: an adaptive limit has no soft cap. One tenant alone at its cap would hold the limit at its least, because only
// a full one rises: it ran 2 calls before an upstream that could take 40.
func TestSoftCap_Adaptive(t *testing.T) {
	p := adaptivePool()
	p.SoftCapPPM = 500_000
	_, err := New(Config{Pools: []Pool{p}, Tenants: []Tenant{{Name: "a", Weight: 1}}})
	if err == nil || !strings.Contains(err.Error(), "soft cap") {
		t.Errorf("got %v", err)
	}
}

// TestKeptOut: of a pool that has room for four calls, and by a rule only for two of these, the state says how many of the others wait for
// that rule, and which it is. They are no part of what their tenant is entitled to.
func TestKeptOut(t *testing.T) {
	for name, c := range map[string]struct {
		pool Pool
		by   string
	}{
		"interactive_reserve": {Pool{InteractiveReserve: 2}, escrow.InteractiveReserve},
		"soft_cap":            {Pool{SoftCapPPM: 500_000}, escrow.SoftCap},
		"hold_back":           {Pool{HoldBackPPM: 500_000}, escrow.HoldBack},
		"none":                {Pool{}, ""},
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			c.pool.Name = "p"
			c.pool.Concurrency = 4
			c.pool.MaxQueue = 10
			g := must(t, Config{Pools: []Pool{c.pool}, Tenants: []Tenant{{Name: "night", Weight: 1, MaxWait: time.Hour, Background: true}}})
			ctx, stop := context.WithCancel(t.Context())
			var calls sync.WaitGroup
			defer calls.Wait()
			defer stop()
			for range 7 {
				calls.Go(func() {
					l, rej := g.Acquire(ctx, Request{Tenant: "night", Pool: "p", Model: "m"})
					if rej == nil {
						<-ctx.Done()
						l.Settle(Usage{Output: 1})
					}
				})
			}
			time.Sleep(3 * time.Minute)
			shares := g.State().Pools[0].Shares
			s := shares[slices.IndexFunc(shares, func(s TenantShare) bool { return s.Tenant == "night" })]
			want := TenantShare{Queued: 5, Running: 2, KeptOut: 5}
			if c.by == "" {
				want = TenantShare{Queued: 3, Running: 4}
			}
			if s.Queued != want.Queued || s.Running != want.Running || s.KeptOut != want.KeptOut || s.KeptOutBy != c.by {
				t.Errorf("%d run, %d wait, %d of them for rule %q; want %+v for rule %q", s.Running, s.Queued, s.KeptOut, s.KeptOutBy, want, c.by)
			}
			if s.Demand != s.Received && c.by != "" {
				t.Errorf("they are demand: it asks for %.4f of the pool, and received %.4f", s.Demand, s.Received)
			}
		})
	}
}

// bandsSite is a pool of 20 slots, of which calls of the lowest band leave 5 free.
func bandsSite(t *testing.T) *Governor {
	t.Helper()
	return must(t, Config{
		Pools: []Pool{{Name: "p", Concurrency: 20, HoldBackPPM: 250_000, MaxQueue: 1000}},
		Tenants: []Tenant{
			{Name: "chat", Weight: 3, MaxWait: time.Hour},
			{Name: "batch", Weight: 1, MaxWait: time.Hour, Background: true},
			{Name: "trial", Weight: 1, Below: 9},
		},
	})
}

// TestBands_Explained: a call that keeps out of the last slots is told so, and so is who asks why; a call of a higher band finds one.
func TestBands_Explained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := bandsSite(t)
		calls := callsOf{Governor: g}
		defer calls.settle()
		calls.fill(t, slices.Repeat([]string{"trial"}, 15)...)
		rej := calls.take(t, "trial")
		if rej == nil || rej.Limit != 15 || rej.Used != 15 || rej.Reason != ReasonConcurrency || !strings.Contains(rej.Error(), "hold_back") {
			t.Fatalf("in the last slots a call gets %+v: %v", rej, rej)
		}
		o, _ := g.Explain(Request{Tenant: "trial", Pool: "p", Model: "m"})
		i := slices.IndexFunc(o.Checks, func(c Check) bool { return c.Axis == refusal.AxisHoldBack })
		if i < 0 || o.Checks[i].Limit != 15 || o.Checks[i].Used != 15 || o.Refused == nil || !o.Checks[i].Of(o.Refused) {
			t.Errorf("in the last slots the checks are %+v, refused by %+v", o.Checks, o.Refused)
		}
		calls.fill(t, slices.Repeat([]string{"chat"}, 5)...)
	})
}

// TestBands_EntitledIsReceived: a background tenant in the lowest band gets what it is entitled to within 3 %: beside another that always has
// calls waiting its share by weight, and alone what its band may use, which is all that it is entitled to.
func TestBands_EntitledIsReceived(t *testing.T) {
	for _, c := range []struct {
		what    string
		workers map[string]int
		batch   float64
	}{
		{"beside another", map[string]int{"chat": 40, "batch": 30}, 0.25},
		{"alone", map[string]int{"batch": 30}, 0.75},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				batch := sharesUnder(t, bandsSite(t), 6, c.workers, func(worker int) time.Duration {
					return time.Second + time.Duration(17*(worker%30))*time.Millisecond
				})["batch"]
				t.Logf("it received %.4f of the pool, and was entitled to %.4f", batch.Received, batch.Entitled)
				if math.Abs(batch.Received/c.batch-1) > 0.03 || math.Abs(batch.Received/batch.Entitled-1) > 0.03 {
					t.Errorf("it received %.4f of the pool and was entitled to %.4f, want %.2f of both", batch.Received, batch.Entitled, c.batch)
				}
			})
		})
	}
}

// callsOf are calls of a governor's pool p that run.
type callsOf struct {
	*Governor
	leases []Lease
}

// take begins a call, if it is not refused.
func (c *callsOf) take(t *testing.T, tenant string) *Refusal {
	l, rej := Refused(c.Acquire(t.Context(), Request{Tenant: tenant, Pool: "p", Model: "m"}))
	if rej == nil {
		c.leases = append(c.leases, l)
	}
	return rej
}

// fill begins a call of each of these tenants, none of which is to be refused.
func (c *callsOf) fill(t *testing.T, tenants ...string) {
	t.Helper()
	for _, tenant := range tenants {
		if rej := c.take(t, tenant); rej != nil {
			t.Fatalf("with %d slots in use a call of %s: %v", len(c.leases), tenant, rej)
		}
	}
}

// settle ends them all.
func (c *callsOf) settle() {
	for _, l := range c.leases {
		l.Settle(Usage{Output: 1})
	}
}

// TestPriority_OfCalls: of a tenant's calls that wait, those of higher priorities go first, and of one priority whoever came first: at the tenant's
// own limits and in the pool's queue. No call goes before others because it says that its priority is above its tenant's.
func TestPriority_OfCalls(t *testing.T) {
	slot := Config{Pools: []Pool{{Name: "p", MaxQueue: 100}}, Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: time.Hour, Concurrency: 1}}}
	pool := Config{Pools: []Pool{{Name: "p", MaxQueue: 100, Concurrency: 1}}, Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: time.Hour}}}
	minute := Config{Pools: []Pool{{Name: "p", MaxQueue: 100}}, Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: time.Hour, RPM: 1}}}
	asks := []Request{{ID: "auxiliary", Below: 8}, {ID: "subagent", Below: 5}, {ID: "batch", Background: true}, {ID: "subagent 2", Below: 5}, {ID: "main"}}
	for name, c := range map[string]struct {
		cfg   Config
		below int
		want  []string
	}{
		"own slot":         {slot, 0, []string{"main", "subagent", "subagent 2", "auxiliary", "batch"}},
		"own minute":       {minute, 0, []string{"main", "subagent", "subagent 2", "auxiliary", "batch"}},
		"pool":             {pool, 0, []string{"main", "subagent", "subagent 2", "auxiliary", "batch"}},
		"own slot, from 4": {slot, 5, []string{"subagent", "subagent 2", "main", "auxiliary", "batch"}},
		"pool, from 4":     {pool, 5, []string{"subagent", "subagent 2", "main", "auxiliary", "batch"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := c.cfg
			cfg.Tenants = slices.Clone(cfg.Tenants)
			cfg.Tenants[0].Below = c.below
			g := must(t, cfg)
			first := admitted(t, g, Request{Tenant: "a", Pool: "p"})
			var order []string
			var wg sync.WaitGroup
			for _, r := range asks {
				r.Tenant, r.Pool = "a", "p"
				wg.Go(func() {
					l, rej := Refused(g.Acquire(t.Context(), r))
					if rej != nil {
						t.Error(rej)
						return
					}
					order = append(order, r.ID)
					time.Sleep(time.Second)
					l.Settle(Usage{})
				})
				synctest.Wait()
				time.Sleep(time.Millisecond)
			}
			first.Settle(Usage{})
			wg.Wait()
			if !slices.Equal(order, c.want) {
				t.Errorf("%s: they went in the order %q, want %q", name, order, c.want)
			}
		})
	}
}

// TestPriority_WaitIsItsOwn: a call that goes before those that wait is not refused for the time that these will take.
func TestPriority_WaitIsItsOwn(t *testing.T) {
	tenant := Tenant{Name: "a", Weight: 1, MaxWait: time.Hour}
	limited := tenant
	limited.RPM = 1
	for name, c := range map[string]struct {
		cfg  Config
		wait time.Duration
	}{
		"own":  {Config{Pools: []Pool{{Name: "p", MaxQueue: 100}}, Tenants: []Tenant{limited}}, 90 * time.Second},
		"pool": {Config{Pools: []Pool{{Name: "p", MaxQueue: 100, RPM: 10}}, Tenants: []Tenant{tenant}}, 20 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := must(t, c.cfg)
			var wg sync.WaitGroup
			for range 40 {
				wg.Go(func() {
					if l, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", Below: 5})); rej == nil {
						l.Settle(Usage{})
					}
				})
			}
			synctest.Wait()
			l, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", MaxWait: &c.wait}))
			if rej != nil {
				t.Errorf("%s: %v", name, rej)
			}
			l.Settle(Usage{})
			wg.Wait()
		})
	}
}

// TestShares_AdmittedWithoutGrant: a call that goes although a grant of the pool's budget is too small for it has the store asked for its
// cost, as one that waits does.
func TestShares_AdmittedWithoutGrant(t *testing.T) {
	for name, tt := range map[string]struct{ shadow, background bool }{"shadow": {shadow: true}, "in the background": {background: true}} {
		testkit.Virtual(t, name, func(t *testing.T) {
			g := must(t, Config{
				Shared: true, SharedSlots: true,
				Pools: []Pool{{Name: "p", Concurrency: 9, MaxQueue: 10, Budgets: []Budget{
					{Unit: UnitTokens, Limit: 1000, Per: budget.Day, Background: tt.background},
				}}},
				Tenants: []Tenant{{Name: "a", Weight: 1, Shadow: tt.shadow}},
			})
			s := g.SharedSlots()[0]
			s.Claim(time.Now())
			s.Allow(time.Now(), time.Now().Add(time.Hour), &slots.Grant{Slots: 9}, nil)
			admitted(t, g, demand("a", 300)).Settle(Usage{})
			_, list := s.Claim(time.Now())
			if all, own := list[0], list[1]; all.Need != 300 || all.Last != 300 || own.Last != 300 {
				t.Errorf("of the budget it needs %d for a call of %d, and its tenant's was of %d; want 300", all.Need, all.Last, own.Last)
			}
		})
	}
}
