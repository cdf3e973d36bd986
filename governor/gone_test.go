package governor

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
)

// many is a configuration of n tenants, in groups if there are any.
func many(n, pools, groups int) Config {
	var cfg Config
	for i := range pools {
		cfg.Pools = append(cfg.Pools, Pool{Name: fmt.Sprintf("p%d", i), TPM: 1e9, RPM: 1e6, Concurrency: 1e5, MaxQueue: 1000, Burst: time.Minute})
	}
	for i := range n {
		tc := Tenant{Name: fmt.Sprintf("tenant-%d", i), Weight: 1000, RPM: 1e4, TPM: 1e6, Concurrency: 100, MaxWait: time.Second}
		if groups > 0 {
			tc.Group = fmt.Sprintf("g%d", i%groups)
			tc.GroupWeight = 1000
		}
		cfg.Tenants = append(cfg.Tenants, tc)
	}
	return cfg
}

// Those who go while they have calls leave their nodes behind until these end. A pool
// that is pumped looks at a few of them only, takes back those who return, and gets
// rid of all in the end.
func TestApply_ManyGoWithCalls(t *testing.T) {
	const n = 300
	g := must(t, many(n, 1, 0))
	p := g.table.Load().inOrder.pools[0]
	var leases []Lease
	for i := range n {
		l := admitted(t, g, Request{Tenant: fmt.Sprintf("tenant-%d", i), Pool: "p0", Output: 10})
		leases = append(leases, l)
	}
	leafOf := func(tenant string) any { return g.table.Load().tenants[tenant].access[0].seat.leaf }
	before := leafOf("tenant-7")
	apply(t, g, many(n, 1, 10))
	if got := len(p.claims.retired); got != n {
		t.Errorf("%d nodes wait for the end of their calls, want %d", got, n)
	}
	apply(t, g, many(n, 1, 0))
	if got := len(p.claims.retired); leafOf("tenant-7") != before || got < n+10-sweepStride {
		t.Errorf("who came back has node %v, not its own %v; and %d of groups are there, want %d or more: only a few are looked at", leafOf("tenant-7"), before, got, n+10-sweepStride)
	}
	apply(t, g, many(1, 1, 0))
	for _, l := range leases {
		l.Settle(Usage{Output: 1})
	}
	for range n {
		l := admitted(t, g, Request{Tenant: "tenant-0", Pool: "p0", Output: 10})
		l.Settle(Usage{Output: 1})
	}
	if got := len(p.claims.retired); got != 0 {
		t.Errorf("%d nodes of who is gone are in the tree still", got)
	}
	healthy(t, g)
}

func BenchmarkApply(b *testing.B) {
	flat := many(10_000, 5, 0)
	grouped := many(10_000, 5, 10)
	for name, other := range map[string]Config{"same": flat, "all moved": grouped} {
		b.Run(name, func(b *testing.B) {
			g := must(b, flat)
			for i := 0; b.Loop(); i++ {
				testkit.OK(b, g.Apply([]Config{other, flat}[i%2]))
			}
		})
	}
}

// Limits in a pool that are taken off hold nobody up any more, who waits for them
// already included.
func TestApply_LimitsInAPoolAreTakenOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{
			Pools:   []Pool{{Name: "p", TPM: 60_000, MaxQueue: 10}},
			Tenants: []Tenant{{Name: "a", Weight: 1000, MaxWait: time.Hour, InPool: map[string]Limits{"p": {Concurrency: 1}}}},
		}
		g := must(t, cfg)
		first, _ := g.Acquire(t.Context(), demand("a", 1))
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				l, rej := Rejected(g.Acquire(t.Context(), demand("a", 1)))
				if rej != nil || l.Waited > time.Second {
					t.Errorf("a call waited %v for a limit that was taken off (%v)", l.Waited, rej)
				}
				l.Settle(Usage{})
			})
		}
		synctest.Wait()
		cfg.Tenants = []Tenant{{Name: "a", Weight: 1000, MaxWait: time.Hour}}
		apply(t, g, cfg)
		time.Sleep(10 * time.Minute)
		first.Settle(Usage{})
		wg.Wait()
	})
}

// A pool that is forgotten while a call is on its way to it, in the line of its
// tenant, and comes back under its name, admits that call by the new books.
func TestApply_APoolIsForgottenBeforeACallComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		with := Config{
			Pools: []Pool{{Name: "p", Concurrency: 1, MaxQueue: 10}, {Name: "q", TPM: 100_000, MaxQueue: 10}},
			Tenants: []Tenant{
				{Name: "a", Weight: 1000, MaxWait: time.Hour, Concurrency: 1},
				{Name: "b", Weight: 1000},
			},
		}
		without := with
		without.Pools = with.Pools[1:]
		g := must(t, with)
		first, _ := g.Acquire(t.Context(), Request{Tenant: "a", Pool: "q", Output: 1})
		var l Lease
		var rej *Rejection
		var wg sync.WaitGroup
		wg.Go(func() { l, rej = Rejected(g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", Output: 1})) })
		synctest.Wait()
		apply(t, g, without)
		time.Sleep(3 * time.Minute)
		apply(t, g, without)
		apply(t, g, with)
		first.Settle(Usage{})
		wg.Wait()
		if rej != nil || l.Waited != 3*time.Minute {
			t.Errorf("the call waited %v and got %v", l.Waited, rej)
		}
		if _, rej := g.Acquire(t.Context(), Request{Tenant: "b", Pool: "p", Output: 1}); rej == nil {
			t.Error("two calls run in a pool where one may")
		}
		if running, _ := g.Leases(); running != 1 {
			t.Errorf("%d are seen to run, want 1", running)
		}
		l.Settle(Usage{})
	})
}

// What a tenant has in a pool goes with the pool.
func TestApply_PoolsThatAreGoneAreForgottenByTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		renamed := func(i int) Config {
			name := fmt.Sprintf("p%d", i)
			return Config{
				Pools:   []Pool{{Name: name, TPM: 1000}},
				Tenants: []Tenant{{Name: "a", Weight: 1000, InPool: map[string]Limits{name: {TPM: 5}}}},
			}
		}
		g := must(t, renamed(0))
		for i := range 10 {
			apply(t, g, renamed(i))
			time.Sleep(3 * time.Minute)
		}
		if n := len(g.tenants["a"].in); n > 2 {
			t.Errorf("after ten names of one pool a tenant has limits in %d, want at most 2", n)
		}
	})
}

// Whoever looks while a tenant moves sees what holds for it whole.
func TestExplain_WhileTenantsMove(t *testing.T) {
	g := must(t, many(2, 1, 0))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				o, ok := g.Explain(Request{Tenant: "tenant-1", Pool: "p0", Output: 1})
				if !ok || len(o.Checks) != 6 {
					t.Errorf("of six limits it saw %d (%v)", len(o.Checks), ok)
				}
			}
		})
	}
	for i := range 300 {
		testkit.OK(t, g.Apply(many(2, 1, i%2)))
	}
	close(stop)
	wg.Wait()
}

// Who is gone when its own limits let it go is told how long it has waited, as
// whoever is refused is.
func TestApply_WhoIsGoneIsToldHowLongItWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{
			Pools:   []Pool{{Name: "p", TPM: 60_000, MaxQueue: 10}},
			Tenants: []Tenant{{Name: "a", Weight: 1000, MaxWait: time.Hour, Concurrency: 1}, {Name: "b", Weight: 1000}},
		}
		g := must(t, cfg)
		first, _ := g.Acquire(t.Context(), demand("a", 1))
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, rej := Rejected(g.Acquire(t.Context(), demand("a", 1))); rej == nil || rej.Reason != ReasonUnknown || rej.Waited != time.Minute {
				t.Errorf("it got %+v, want that it is not known, after a minute", rej)
			}
		})
		synctest.Wait()
		cfg.Tenants = cfg.Tenants[1:]
		apply(t, g, cfg)
		time.Sleep(time.Minute)
		first.Settle(Usage{})
		wg.Wait()
		if n := g.tenants["a"].over.set.Running(); n != 0 {
			t.Errorf("%d calls are held of its limits", n)
		}
	})
}
