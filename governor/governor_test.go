package governor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/governor/refusal"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func must(t testing.TB, cfg Config) *Governor {
	t.Helper()
	return testkit.Must(New(cfg))(t)
}

// admitted is the lease of a call that has to go.
func admitted(t testing.TB, g *Governor, r Request) Lease {
	t.Helper()
	l, rej := Refused(g.Acquire(t.Context(), r))
	if rej != nil {
		t.Fatal(rej)
	}
	return l
}

func demand(tenant string, tokens int64) Request {
	return Request{Tenant: tenant, Pool: "p", Output: tokens}
}

// used is what a tenant's own axis and the pool's tokens count now.
func used(g *Governor, tenant int) (own, pool int64) {
	s := g.State()
	if l := s.Tenants[tenant].Limits; len(l) > 0 {
		own = l[0].Used
	}
	return own, s.Pools[0].Axes[0].Used
}

// A refusal by the pool, the last to be asked, leaves the tenant's own limits
// as they were; and a refusal by the tenant's limits never reaches the pool.
func TestI10_AllOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools: []Pool{{Name: "p", TPM: 60_000, Burst: 10 * time.Second, MaxQueue: 10}},
			Tenants: []Tenant{
				{Name: "a", Weight: 1, TPM: 40_000},
				{Name: "b", Weight: 1, RPM: 1},
			},
		})
		if _, rej := Refused(g.Acquire(t.Context(), demand("a", 2_000))); rej == nil || rej.Reason != ReasonTokens || rej.Own {
			t.Fatalf("the pool has one second of rate at the start, yet a call of two got %v", rej)
		}
		if own, pool := used(g, 0); own != 0 || pool != 0 {
			t.Fatalf("after the refusal the tenant counts %d and the pool %d, want 0 and 0", own, pool)
		}
		b := admitted(t, g, demand("b", 100))
		_, before := used(g, 1)
		if _, rej := Refused(g.Acquire(t.Context(), demand("b", 100))); rej == nil || rej.Reason != ReasonRequests || !rej.Own || rej.RetryAfter < 59*time.Second {
			t.Fatalf("a second call of a tenant with rpm 1 got %+v", rej)
		}
		if _, after := used(g, 1); after != before {
			t.Fatalf("a refusal by the tenant's own limit took %d of the pool", after-before)
		}
		b.Settle(Usage{Output: 40})
		if _, pool := used(g, 1); pool != 40 {
			t.Fatalf("the pool counts %d after a settle of 40", pool)
		}
	})
}

// A tenant over its own limit waits beside the queue: it blocks nobody, and its
// minute begins when its call does.
func TestOwnLimitWaitsBesideTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools: []Pool{{Name: "p", TPM: 600_000, Burst: 10 * time.Second, MaxQueue: 10}},
			Tenants: []Tenant{
				{Name: "a", Weight: 1, RPM: 2, MaxWait: 3 * time.Minute},
				{Name: "b", Weight: 1},
			},
		})
		start := time.Now()
		var done []time.Duration
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				l, rej := Refused(g.Acquire(t.Context(), demand("a", 100)))
				if rej != nil {
					t.Error(rej)
					return
				}
				mu.Lock()
				done = append(done, time.Since(start))
				mu.Unlock()
				l.Settle(Usage{Output: 100})
			})
		}
		synctest.Wait()
		if _, rej := Refused(g.Acquire(t.Context(), demand("b", 100))); rej != nil {
			t.Fatalf("b stands behind a's own limit: %v", rej)
		}
		wg.Wait()
		for i, want := range []time.Duration{0, 0, 60 * time.Second, 60 * time.Second, 120 * time.Second} {
			if d := done[i]; d < want || d > want+time.Second+time.Duration(i/2)*time.Second {
				t.Errorf("call %d of a tenant with rpm 2 went after %v, want %v", i, d, want)
			}
		}
	})
}

func TestWaitEndsWhenTheCallerGoes(t *testing.T) {
	for name, cfg := range map[string]Config{
		"own limit": {
			Pools:   []Pool{{Name: "p", Concurrency: 10, MaxQueue: 10}},
			Tenants: []Tenant{{Name: "a", Weight: 1, Concurrency: 1, MaxWait: time.Hour}},
		},
		"pool": {
			Pools:   []Pool{{Name: "p", Concurrency: 1, MaxQueue: 10}},
			Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: time.Hour}},
		},
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			g := must(t, cfg)
			first, _ := g.Acquire(t.Context(), demand("a", 1))

			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, rej := Refused(g.Acquire(ctx, demand("a", 1)))
			if rej == nil || rej.Reason != ReasonCancelled || rej.Waited != time.Second {
				t.Fatalf("got %+v", rej)
			}
			short := 2 * time.Second
			_, rej = Refused(g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", MaxWait: &short}))
			if rej == nil || rej.Reason != ReasonConcurrency || rej.Waited != short {
				t.Fatalf("got %+v", rej)
			}
			go func() {
				time.Sleep(time.Second)
				g.Drain()
			}()
			_, rej = Refused(g.Acquire(t.Context(), demand("a", 1)))
			if rej == nil || rej.Reason != ReasonDraining || rej.Waited != time.Second {
				t.Fatalf("got %+v", rej)
			}
			if running, waiting := g.Leases(); running != 1 || waiting != 0 {
				t.Fatalf("%d run and %d wait, want 1 and 0", running, waiting)
			}
			if !first.Settle(Usage{}) || first.Settle(Usage{}) || first.Release() {
				t.Fatal("a lease does not end exactly once")
			}
			if running, waiting := g.Leases(); running != 0 || waiting != 0 {
				t.Fatalf("%d run and %d wait at the end", running, waiting)
			}
		})
	}
}

// TestPause: calls that can go nowhere for a time have their places in their pool's queue, of which one tenant has no more than another
// leaves, and end as those in it do.
func TestPause(t *testing.T) {
	for _, recorded := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var refused atomic.Int64
			g := must(t, Config{
				Pools:   []Pool{{Name: "p", Concurrency: 1, MaxQueue: 6}},
				Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: time.Hour}, {Name: "b", Weight: 1, MaxWait: time.Hour}},
				Observer: observes(func(e Event) {
					if e.Kind == EventRefused {
						refused.Add(1)
					}
				}), Recorded: recorded,
			})
			late := demand("a", 1)
			late.Pause = time.Second
			began := time.Now()
			runs := testkit.Must(g.Acquire(t.Context(), late))(t)
			if runs.Waited != time.Second || time.Since(began) != time.Second {
				t.Errorf("after %v a call is admitted that paused for 1s, and waited %v", time.Since(began), runs.Waited)
			}
			ask := func(ctx context.Context, tenant string, pause time.Duration) *Refusal {
				req := demand(tenant, 1)
				req.Pause = pause
				_, rej := Refused(g.Acquire(ctx, req))
				return rej
			}
			ends := map[Reason]int{}
			var mu sync.Mutex
			waits := func(ctx context.Context, tenant string, pause time.Duration) {
				go func() {
					rej := ask(ctx, tenant, pause)
					mu.Lock()
					defer mu.Unlock()
					ends[rej.Reason]++
				}()
				synctest.Wait()
			}
			leaves, leave := context.WithCancel(t.Context())
			waits(leaves, "a", 30*time.Minute)
			waits(t.Context(), "a", 0)
			waits(t.Context(), "a", 30*time.Minute)
			for _, pause := range []time.Duration{0, time.Minute} {
				if rej := ask(t.Context(), "a", pause); rej == nil || rej.Reason != ReasonQueueFull || rej.Used != 3 || pause > 0 && rej.RetryAfter != pause {
					t.Errorf("the fourth of a, which pauses for %v: %+v", pause, rej)
				}
			}
			waits(t.Context(), "b", 30*time.Minute)
			waits(t.Context(), "b", 0)
			if rej := ask(t.Context(), "b", time.Minute); rej == nil || rej.Reason != ReasonQueueFull || rej.Pool != "p" {
				t.Errorf("the third of b: %+v", rej)
			}
			if _, waiting := g.Leases(); waiting != 5 {
				t.Errorf("%d wait, want 5", waiting)
			}
			leave()
			synctest.Wait()
			began = time.Now()
			g.Drain()
			synctest.Wait()
			mu.Lock()
			if want := (map[Reason]int{ReasonCancelled: 1, ReasonDraining: 4}); !maps.Equal(ends, want) || time.Since(began) != 0 {
				t.Errorf("they ended as %v, want %v", ends, want)
			}
			mu.Unlock()
			if n := refused.Load(); n != 8 {
				t.Errorf("%d refusals were told, want 8", n)
			}
			runs.Release()
			if running, waiting := g.Leases(); running+waiting != 0 {
				t.Errorf("%d run and %d wait at the end", running, waiting)
			}
		})
	}
}

// Thousands of calls that end every way there is, against small limits: when
// all is over nothing is held, nothing waits, and a minute later nothing counts.
func TestI7_StormLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Pools: []Pool{
			{Name: "p", TPM: 400_000, RPM: 3000, Concurrency: 8, Burst: 10 * time.Second, MaxQueue: 100},
			{Name: "q", TPM: 900_000, Accounting: 1, Concurrency: 3, MaxQueue: 20},
		}}
		for i := range 5 {
			cfg.Tenants = append(cfg.Tenants, Tenant{
				Name: fmt.Sprint(i), Weight: 1, TPM: 900_000, RPM: 400, OTPM: 600_000,
				Concurrency: int64(2 + i), MaxWait: time.Duration(i) * 700 * time.Millisecond,
			})
		}
		g := must(t, cfg)
		var wg sync.WaitGroup
		var outcomes [NumReasons]atomic.Int64
		for i := range 4000 {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			wg.Go(func() {
				time.Sleep(time.Duration(rng.Int64N(int64(2 * time.Minute))))
				ctx, cancel := testkit.Leaving(t.Context(), time.Duration(rng.Int64N(int64(5*time.Second))))
				defer cancel()
				req := Request{Tenant: fmt.Sprint(rng.IntN(5)), Pool: []string{"p", "q"}[rng.IntN(2)], Input: rng.Int64N(200), Output: rng.Int64N(2000)}
				l, rej := Refused(g.Acquire(ctx, req))
				if rej != nil {
					outcomes[rej.Reason].Add(1)
					return
				}
				outcomes[ReasonNone].Add(1)
				for range rng.IntN(4) {
					time.Sleep(time.Duration(rng.Int64N(int64(300 * time.Millisecond))))
					l.Progress(rng.Int64N(1000))
				}
				ended := 0
				for range 2 {
					if rng.IntN(8) == 0 {
						if l.Release() {
							ended++
						}
					} else if l.Settle(Usage{Input: req.Input, Output: rng.Int64N(2500)}) {
						ended++
					}
				}
				if ended != 1 {
					t.Errorf("a lease ended %d times", ended)
				}
			})
		}
		wg.Wait()
		for r := range outcomes {
			t.Logf("%-12s %d", Reason(r), outcomes[r].Load())
		}
		checkEmpty(t, g)
	})
}

func checkEmpty(t *testing.T, g *Governor) {
	t.Helper()
	for _, p := range g.table.inOrder.pools {
		g.look() // a timer may have been the last to use it
		err := p.escrow.Check()
		g.unlock()
		if err != nil {
			t.Error(err)
		}
	}
	if running, waiting := g.Leases(); running != 0 || waiting != 0 {
		t.Errorf("%d run and %d wait when all is over", running, waiting)
	}
	time.Sleep(2 * time.Minute)
	s := g.State()
	for _, p := range s.Pools {
		if p.Axes[0].Used != 0 || p.Axes[1].Used != 0 || len(p.Leases) != 0 {
			t.Errorf("pool %s still counts %+v, leases %v", p.Config.Name, p.Axes, p.Leases)
		}
	}
	for _, ts := range s.Tenants {
		for _, l := range ts.Limits {
			if l.Used != 0 {
				t.Errorf("tenant %s still counts %d %s", ts.Config.Name, l.Used, l.Axis)
			}
		}
		if ts.Running != 0 || ts.InLine != 0 {
			t.Errorf("tenant %s: %d run, %d in line", ts.Config.Name, ts.Running, ts.InLine)
		}
	}
}

func TestValidate(t *testing.T) {
	_, err := New(Config{
		SharedSlots: true,
		Pools:       []Pool{{Name: "p", TPM: -1}, {Name: "p", HeadroomPPM: 1_000_000}},
		Tenants:     []Tenant{{Name: "", Weight: 0.001}, {Name: "a", Weight: -1, Pools: []string{"nowhere"}, RPM: -5}},
	})
	want := `governor: SharedSlots is of pools whose limits are shared: set Shared, too
governor: pool p: escrow: tokens a minute -1 is not in 0…1000000000000
governor: pool name "p" is empty or taken
governor: pool p: headroom of 1000000 ppm is not in 0…999999
governor: tenant name "" is empty or taken
governor: tenant a: weight -1 is not in 0.001…1000000
governor: tenant a: limit -5 is not in 0…1000000000000
governor: tenant a: there is no pool "nowhere"`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if _, err := New(Config{SharedSlots: true}); err == nil || err.Error() != "governor: SharedSlots is of pools whose limits are shared: set Shared, too" {
		t.Errorf("got %v", err)
	}
}

// thousand is a governor of 1,000 tenants with all axes on.
func thousand(tb testing.TB) *Governor { return must(tb, thousandConfig()) }

func thousandConfig() Config {
	cfg := Config{Pools: []Pool{{Name: "p", TPM: 1e12, RPM: 1e12, Concurrency: 1e6, MaxQueue: 1000, Burst: time.Minute}}}
	for i := range 1000 {
		cfg.Tenants = append(cfg.Tenants, Tenant{Name: fmt.Sprintf("tenant-%d", i), Weight: 1, RPM: 1e9, TPM: 1e12, Concurrency: 1e6, MaxWait: time.Second})
	}
	return cfg
}

func TestAcquireDoesNotAllocate(t *testing.T) {
	g := thousand(t)
	ctx := t.Context()
	if n := testkit.Allocs(t, 1000, func() {
		l, rej := Refused(g.Acquire(ctx, Request{Tenant: "tenant-7", Pool: "p", Input: 10, Output: 10}))
		if rej != nil {
			t.Fatal(rej)
		}
		l.Settle(Usage{Input: 10, Output: 5})
	}); n != 0 {
		t.Errorf("Acquire and Settle allocate %v times", n)
	}
}

// idleObserver listens, and does nothing with it.
type idleObserver struct{}

func (idleObserver) Observe(Event) {}

func BenchmarkAcquireSettle(b *testing.B) {
	g := thousand(b)
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf("tenant-%d", i)
	}
	ctx := b.Context()
	run := func(b *testing.B, i int, pool string) {
		l, rej := Refused(g.Acquire(ctx, Request{Tenant: names[i%1000], Pool: pool, Input: 10, Output: 10}))
		if rej != nil {
			b.Fatal(rej)
		}
		l.Settle(Usage{Input: 10, Output: 5})
	}
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			run(b, i, "p")
			i++
		}
	})
	// With somebody who listens, and written down.
	for name, set := range map[string]func(*Config){
		"observed": func(*Config) {}, "detailed": func(c *Config) { c.Detailed = true }, "recorded": func(c *Config) { c.Recorded = true },
	} {
		b.Run(name, func(b *testing.B) {
			cfg := thousandConfig()
			cfg.Observer = idleObserver{}
			set(&cfg)
			g = must(b, cfg)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				run(b, i, "p")
				i++
			}
		})
	}
	// -cpu 2 -mutexprofile shows how long the goroutines wait for the lock.
	for _, pools := range []int{1, 16} {
		cfg := thousandConfig()
		for i := range pools {
			p := cfg.Pools[0]
			p.Name = fmt.Sprint("p", i)
			cfg.Pools = append(cfg.Pools, p)
		}
		g = must(b, cfg)
		b.Run(fmt.Sprint("sixteen goroutines/pools ", pools), func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(16 / runtime.GOMAXPROCS(0))
			var next atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				own := int(next.Add(1))
				pool := fmt.Sprint("p", own%pools)
				for i := own * 60; pb.Next(); i++ {
					run(b, i, pool)
				}
			})
		})
	}
}

// A refusal of a pool that has used little of its minute says why.
func TestRefusal_Pace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools:   []Pool{{Name: "p", TPM: 60_000, MaxQueue: 10}},
			Tenants: []Tenant{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}},
		})
		req := Request{Tenant: "a", Pool: "p", Input: 900}
		admitted(t, g, req)
		_, rej := Refused(g.Acquire(t.Context(), req))
		const want = "Rate limit reached for pool p on tokens per min (TPM): Limit 60000, Used 900, Requested 900. The minute has room, but it is released at a steady rate. Please try again in "
		if rej == nil || !strings.HasPrefix(rej.Error(), want) {
			t.Errorf("%v", rej)
		}
	})
}

// The error of Acquire is one that functions may hand on: nil if the call goes, and else a refusal, which is the context's error if that has ended.
func TestAcquire_Error(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools:   []Pool{{Name: "p", Concurrency: 1, MaxQueue: 10}, {Name: "none may wait", Concurrency: 1}},
			Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: time.Hour, RPM: 3}, {Name: "b", Weight: 1, Pools: []string{}}, {Name: "c", Weight: 1, MaxWait: time.Hour}},
		})
		acquire := func(ctx context.Context, req Request) (Lease, error) { return g.Acquire(ctx, req) }
		first, err := acquire(t.Context(), demand("a", 1))
		if err != nil {
			t.Fatal(err)
		}
		unwaiting := Request{Tenant: "c", Pool: "none may wait"}
		admitted(t, g, unwaiting)
		gone, leave := testkit.Leaving(t.Context(), time.Second)
		defer leave()
		late, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		for name, c := range map[string]struct {
			ctx   context.Context
			req   Request
			is    error
			reads string
		}{
			"its caller goes":  {gone, demand("a", 1), context.Canceled, "went away"},
			"its time is up":   {late, demand("a", 1), context.DeadlineExceeded, "went away"},
			"does not wait":    {t.Context(), Request{Tenant: "a", Pool: "p", MaxWait: new(time.Duration)}, ErrRefused, "concurrent calls"},
			"no queue":         {t.Context(), unwaiting, ErrRefused, "concurrent calls (concurrency): Limit 1, Used 1, Requested 1."},
			"no such tenant":   {t.Context(), Request{Tenant: "z", Pool: "p"}, ErrRefused, `There is no tenant "z".`},
			"no such pool":     {t.Context(), Request{Tenant: "a", Pool: "q"}, ErrRefused, `There is no pool "q", or tenant "a" may not use it.`},
			"a pool of others": {t.Context(), Request{Tenant: "b", Pool: "p"}, ErrRefused, `There is no pool "p", or tenant "b" may not use it.`},
		} {
			_, err := acquire(c.ctx, c.req)
			if !errors.Is(err, c.is) || !errors.Is(err, ErrRefused) || c.is == ErrRefused && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) || !strings.Contains(err.Error(), c.reads) {
				t.Errorf("%s: %v", name, err)
			}
		}
		first.Settle(Usage{})
		for range 2 {
			l, err := acquire(t.Context(), demand("a", 1))
			if err != nil {
				t.Fatal(err)
			}
			l.Settle(Usage{})
		}
		soon, leave := context.WithTimeout(t.Context(), 20*time.Second) // its turn comes in a minute
		defer leave()
		begun := time.Now()
		if _, rej := Refused(acquire(soon, demand("a", 1))); rej == nil || rej.Reason != ReasonRequests || rej.RetryAfter < 20*time.Second || time.Since(begun) != 0 {
			t.Errorf("a deadline before its turn: %+v after %s", rej, time.Since(begun))
		}
	})
}

// The refusal that a shadow would have got by its tenant's own budget names the tenant, as every other's.
func TestRefusal_AShadowsOwnBudgetIsItsTenants(t *testing.T) {
	g := must(t, Config{
		Pools: []Pool{{Name: "p", RPM: 600}},
		Tenants: []Tenant{{
			Name: "a", Weight: 1, Shadow: true,
			Budgets: []Budget{{Unit: UnitRequests, Per: budget.Hour, Limit: 1}},
		}},
	})
	req := Request{Tenant: "a", Pool: "p"}
	first, _ := g.Acquire(t.Context(), req)
	first.Settle(Usage{})
	l, rej := Refused(g.Acquire(t.Context(), req))
	if rej != nil || l.Would == nil {
		t.Fatalf("refused: %v, would have been: %v", rej, l.Would)
	}
	if !l.Would.Own || l.Would.Tenant != "a" || l.Would.Reason != ReasonBudget {
		t.Errorf("it would have been refused by %+v", l.Would)
	}
}

// TestRefusal_Spread: calls that an outage refuses in one moment come back over a second, each at its own time, and soon. No other
// refusal changes.
func TestRefusal_Spread(t *testing.T) {
	for _, c := range []struct {
		rej         *Refusal
		least, most time.Duration
		spread      bool
	}{
		{refuseLost("a"), 500 * time.Millisecond, 1500 * time.Millisecond, true},
		{&Refusal{Reason: ReasonStoreLost, RetryAfter: 40 * time.Second}, 40 * time.Second, 41 * time.Second, true},
		{refuseDraining("a"), refusal.DrainRetry, refusal.DrainRetry, false},
	} {
		promised := c.rej.RetryAfter
		tenths := map[int64]int{}
		for i := range 1000 {
			name := fmt.Sprint("req-", i)
			got := c.rej.Spread(name).RetryAfter
			if got < c.least || got > c.most || got != c.rej.Spread(name).RetryAfter {
				t.Fatalf("%v: %s comes back after %v", c.rej.Reason, name, got)
			}
			tenths[got.Milliseconds()/100]++
		}
		for tenth, n := range tenths {
			if c.spread && n > 200 {
				t.Errorf("%v: %d of 1000 come back after %d00 ms", c.rej.Reason, n, tenth)
			}
		}
		if c.rej.RetryAfter != promised {
			t.Errorf("%v: what observers know has changed", c.rej.Reason)
		}
	}
}
