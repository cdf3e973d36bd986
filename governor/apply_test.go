package governor

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/refusal"
	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// healthy fails the test unless all books of a governor agree.
func healthy(t *testing.T, g *Governor) {
	t.Helper()
	g.look()
	defer g.unlock()
	for _, p := range g.table.inOrder.pools {
		if err := p.escrow.Check(); err != nil {
			t.Error(err)
		}
	}
}

func apply(t *testing.T, g *Governor, cfg Config) {
	t.Helper()
	testkit.OK(t, g.Apply(cfg))
	healthy(t, g)
}

// small is a configuration with one of everything that has state.
func small() Config {
	return Config{
		Pools: []Pool{
			{Name: "p", TPM: 60_000, RPM: 600, Concurrency: 20, Burst: 10 * time.Second, MaxQueue: 100, TicketWait: 10 * time.Second, Budgets: []Budget{{Unit: UnitTokens, Limit: 1e5, Per: budget.Hour}}},
			{Name: "q", TPM: 60_000, Burst: 10 * time.Second, MaxQueue: 100, Accounting: escrow.Production},
		},
		Tenants: []Tenant{
			{Name: "a", Weight: 2, TPM: 40_000, Budgets: []Budget{{Unit: UnitTokens, Limit: 5e4, Per: budget.Hour}}},
			{Name: "b", Weight: 1, RPM: 100, Concurrency: 5, InPool: map[string]Limits{"p": {TPM: 20_000}}},
			{Name: "org", Weight: 1, TPM: 30_000},
			{Name: "org/x", Weight: 3, Credit: time.Second},
			{Name: "org/y", Weight: 1, Floor: 1000},
			{Name: "g1", Weight: 1, Group: "g", GroupWeight: 1},
			{Name: "g2", Weight: 1, Group: "g", GroupWeight: 1},
		},
	}
}

// walkTeams lets calls come and go that do not wait, from one goroutine, and so always in
// the same way, and tells what became of each. before is called before each comes.
func walkTeams(t *testing.T, cfg Config, before func(g *Governor, i int, req Request)) (log []string) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, cfg)
		rng := rand.New(rand.NewPCG(4, 4))
		type end struct {
			at    time.Time
			lease Lease
			took  int64
		}
		var running []end
		for i := range 6000 {
			time.Sleep(time.Duration(rng.Int64N(int64(60 * time.Millisecond))))
			running = slices.DeleteFunc(running, func(e end) bool {
				return !e.at.After(time.Now()) && e.lease.Settle(Usage{Output: e.took})
			})
			req := Request{
				Tenant: cfg.Tenants[rng.IntN(7)].Name, Pool: "pq"[rng.IntN(2):][:1], Output: rng.Int64N(1000),
				Claim: escrow.Claim{Key: uint64(i % 50)},
			}
			took := rng.Int64N(req.Output + 1)
			until := time.Now().Add(time.Duration(rng.Int64N(int64(2 * time.Second))))
			before(g, i, req)
			l, rej := Refused(g.Acquire(t.Context(), req))
			log = append(log, fmt.Sprint(rej))
			if rej == nil {
				running = append(running, end{until, l, took})
			}
		}
		healthy(t, g)
	})
	went := 0
	for _, line := range log {
		if line == "<nil>" {
			went++
		}
	}
	if went < 1000 || went > 5000 {
		t.Errorf("%d of %d calls went, which shows little", went, len(log))
	}
	return log
}

// To put the same configuration in force again changes nothing at all: every call
// goes and is refused as if it had not been.
func TestApply_TheSameChangesNothing(t *testing.T) {
	plain := walkTeams(t, small(), func(g *Governor, i int, _ Request) {
		now := g.lock()
		defer g.unlock()
		for _, p := range g.table.inOrder.pools {
			if i%5 == 0 { // as it is then, too
				g.pump(p.pool, now)
			}
		}
	})
	same := walkTeams(t, small(), func(g *Governor, i int, _ Request) {
		if i%5 == 0 {
			apply(t, g, small())
		}
	})
	if diff := cmp.Diff(plain, same); diff != "" {
		t.Errorf("the same again (-without +with):\n%s", diff)
	}
}

// sees tells what counts against a tenant's and a pool's tokens, and a budget.
func sees(g *Governor, tenant string) (own, pool, spent int64) {
	s := g.State()
	for _, ts := range s.Tenants {
		if ts.Config.Name == tenant {
			for _, l := range ts.Limits {
				if l.Axis == refusal.AxisTokens && l.Pool == "" {
					own = l.Used
				}
			}
			spent = ts.Budgets[0].Used
		}
	}
	return own, s.Pools[0].Axes[escrow.Tokens].Used, spent
}

// What was used counts on when limits change, and when who used it is away for less
// than its minute: the provider forgets nothing either.
func TestApply_NothingIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := Config{
			Pools: []Pool{{Name: "p", TPM: 60_000, Burst: time.Minute, MaxQueue: 10}, {Name: "q", TPM: 60_000, MaxQueue: 10}},
			Tenants: []Tenant{
				{Name: "a", Weight: 1, TPM: 40_000, Budgets: []Budget{{Unit: UnitTokens, Limit: 1e6, Per: budget.Day}}},
				{Name: "b", Weight: 1},
			},
		}
		with := func(edit func(*Config)) Config {
			cfg := base
			cfg.Pools = append([]Pool{}, cfg.Pools...)
			cfg.Tenants = append([]Tenant{}, cfg.Tenants...)
			edit(&cfg)
			return cfg
		}
		g := must(t, base)
		time.Sleep(5 * time.Minute)
		l := admitted(t, g, demand("a", 9000))
		l.Settle(Usage{Output: 9000})
		for name, cfg := range map[string]Config{
			"limits rise": with(func(c *Config) {
				c.Pools[0].TPM = 90_000
				c.Tenants[0].TPM = 50_000
				c.Tenants[0].Budgets = []Budget{{Unit: UnitTokens, Limit: 2e6, Per: budget.Day}}
			}),
			"limits fall below": with(func(c *Config) {
				c.Pools[0].TPM = 3000
				c.Tenants[0].TPM = 5
				c.Tenants[0].Budgets = []Budget{{Unit: UnitTokens, Limit: 7, Per: budget.Day}}
			}),
			"the budget's books change units": with(func(c *Config) { c.Tenants[0].Budgets = []Budget{{Unit: UnitTokens, Limit: 1e15, Per: budget.Day}} }),
			"another weight, group and pool": with(func(c *Config) {
				c.Tenants[0].Weight = 0.005
				c.Tenants[0].Group = "g"
				c.Tenants[0].GroupWeight = 0.007
			}),
			"production": with(func(c *Config) { c.Pools[0].Accounting = escrow.Production }),
			"away": with(func(c *Config) {
				c.Pools = c.Pools[1:]
				c.Tenants = c.Tenants[1:]
			}),
		} {
			apply(t, g, cfg)
			if name != "away" {
				if own, pool, spent := sees(g, "a"); own != 9000 || pool != 9000 || spent < 9000 || spent > 9100 {
					t.Errorf("%s: own limit, pool and budget count %d, %d, %d, want 9000 each", name, own, pool, spent)
				}
			}
			apply(t, g, base)
			if own, pool, spent := sees(g, "a"); own != 9000 || pool != 9000 || spent < 9000 || spent > 9100 {
				t.Errorf("%s, and back: own limit, pool and budget count %d, %d, %d, want 9000 each", name, own, pool, spent)
			}
		}
		apply(t, g, with(func(c *Config) {
			c.Pools = c.Pools[1:]
			c.Tenants = c.Tenants[1:]
		}))
		time.Sleep(3 * time.Minute)
		apply(t, g, with(func(c *Config) {
			c.Pools = c.Pools[1:]
			c.Tenants = c.Tenants[1:]
		}))
		if len(g.pools) != 1 || len(g.tenants) != 2 {
			t.Errorf("%d pools and %d tenants are kept, want 1, and 2: the budget of a counts to the end of its day", len(g.pools), len(g.tenants))
		}
		apply(t, g, base)
		if own, pool, spent := sees(g, "a"); own != 0 || pool != 0 || spent < 9000 {
			t.Errorf("after three minutes own limit, pool and budget count %d, %d, %d, want 0, 0, 9000", own, pool, spent)
		}
		time.Sleep(25 * time.Hour)
		apply(t, g, with(func(c *Config) { c.Tenants = c.Tenants[1:] }))
		time.Sleep(3 * time.Minute)
		apply(t, g, with(func(c *Config) { c.Tenants = c.Tenants[1:] }))
		if len(g.tenants) != 1 {
			t.Errorf("%d tenants are kept, want 1", len(g.tenants))
		}
	})
}

// Who is gone is served to the end of what it has begun, and then nothing is left of
// it in the tree.
func TestApply_WhoIsGoneIsServedToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := Config{
			Pools: []Pool{{Name: "p", Concurrency: 1, MaxQueue: 10}},
			Tenants: []Tenant{
				{Name: "a", Weight: 1, MaxWait: time.Hour, Group: "g", GroupWeight: 1},
				{Name: "b", Weight: 1},
				{Name: "org", Weight: 1},
				{Name: "org/x", Weight: 1, MaxWait: time.Hour, Concurrency: 2},
			},
		}
		g := must(t, base)
		running := admitted(t, g, Request{Tenant: "a", Pool: "p", Output: 10, Stream: true, ID: "s"})
		var wg sync.WaitGroup
		for _, who := range []string{"a", "org/x"} {
			wg.Go(func() {
				l, rej := Refused(g.Acquire(t.Context(), Request{Tenant: who, Pool: "p", Output: 10}))
				if rej != nil || !l.Settle(Usage{Output: 10}) {
					t.Errorf("a call of %s that waited was refused, or not settled: %v", who, rej)
				}
			})
		}
		synctest.Wait()
		gone := base
		gone.Tenants = base.Tenants[1:2]
		apply(t, g, gone)
		if _, rej := Refused(g.Acquire(t.Context(), demand("a", 1))); rej == nil || rej.Reason != ReasonUnknown {
			t.Errorf("a new call of a tenant that is gone got %v", rej)
		}
		running.Progress(5)
		if s := g.State(); len(s.Pools[0].Leases) != 3 || s.Pools[0].Leases[0].Tenant != "a" {
			t.Errorf("its leases are not to be seen: %v", s.Pools[0].Leases)
		}
		if !running.Settle(Usage{Output: 10}) {
			t.Error("its lease was lost")
		}
		wg.Wait()
		admitted(t, g, demand("b", 1)).Settle(Usage{}) // when siblings are gone, so is what was owed to them
		p := g.table.inOrder.pools[0]
		if n := len(p.tree.retired); n != 0 {
			t.Errorf("%d nodes of who is gone are in the tree still", n)
		}
		healthy(t, g)
		if running, waiting := g.Leases(); running+waiting != 0 {
			t.Errorf("%d run, %d wait", running, waiting)
		}
	})
}

// Who waits goes when a limit rises, and is not lost when one falls below what it
// asks for, or is taken off.
func TestApply_WhoWaits(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Config)
		own  time.Duration // until the call that waits for its own limit goes
		pool time.Duration // until the one that waits for the pool does
	}{
		"rises": {func(c *Config) {
			c.Pools[0].TPM = 600_000
			c.Tenants[0].TPM = 60_000
		}, 0, time.Second},
		"taken off": {func(c *Config) {
			c.Pools[0].TPM = 0
			c.Pools[0].Concurrency = 9
			c.Tenants[0].TPM = 0
		}, 0, 0},
		"falls": {func(c *Config) {
			c.Pools[0].TPM = 12_000
			c.Tenants[0].TPM = 500
		}, time.Minute, 2 * time.Minute},
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			base := func() Config {
				return Config{
					Pools:   []Pool{{Name: "p", TPM: 60_000, MaxQueue: 10}},
					Tenants: []Tenant{{Name: "a", Weight: 1, TPM: 1000, MaxWait: time.Hour}, {Name: "b", Weight: 1, MaxWait: time.Hour}},
				}
			}
			g := must(t, base())
			first, _ := g.Acquire(t.Context(), demand("a", 1000))
			var own, pool time.Duration
			var wg sync.WaitGroup
			start := time.Now()
			wait := func(who string, tokens int64, took *time.Duration) {
				wg.Go(func() {
					l, rej := Refused(g.Acquire(t.Context(), demand(who, tokens)))
					if rej != nil {
						t.Error(rej)
					}
					*took = time.Since(start)
					l.Settle(Usage{})
				})
			}
			wait("a", 1000, &own)
			wait("b", 30_000, &pool)
			synctest.Wait()
			cfg := base()
			c.edit(&cfg)
			apply(t, g, cfg)
			wg.Wait()
			first.Settle(Usage{Output: 1000})
			if own > c.own+2*time.Second || own < c.own-time.Second || pool > c.pool+4*time.Second {
				t.Errorf("over its own limit a call waited %v, for the pool %v; want about %v and %v", own, pool, c.own, c.pool)
			}
		})
	}
}

// Whatever is put in force while calls come and go: none is lost, and at the end all
// books are even.
func TestApply_Storm(t *testing.T) {
	random := func(rng *rand.Rand) Config {
		pick := func(limits ...int64) int64 { return limits[rng.IntN(len(limits))] }
		var cfg Config
		for _, name := range []string{"p", "q"} {
			pool := Pool{
				Name: name, TPM: pick(0, 1e6, 1e7), RPM: pick(0, 100_000), Concurrency: pick(20, 50), MaxQueue: 100, Burst: time.Minute,
				Accounting: escrow.Accounting(rng.IntN(3)), TicketWait: time.Duration(rng.IntN(2)) * 10 * time.Second,
			}
			if rng.IntN(2) == 0 {
				pool.Budgets = []Budget{{Unit: UnitTokens, Limit: pick(1e12, 1e15), Per: budget.Day}}
			}
			if rng.IntN(8) > 0 || name == "p" {
				cfg.Pools = append(cfg.Pools, pool)
			}
		}
		for _, name := range []string{"a", "b", "org", "org/x", "org/x/1", "org/y", "g1", "g2"} {
			tc := Tenant{
				Name: name, Weight: escrow.Weight(pick(1, 1000, 5000)) / 1000, TPM: pick(0, 0, 1e6), RPM: pick(0, 0, 10_000), Concurrency: pick(0, 0, 7),
				MaxWait: time.Duration(pick(0, 0, int64(time.Second))), Floor: pick(0, 10), Background: rng.IntN(4) == 0, NoCalls: rng.IntN(8) == 0, Shadow: rng.IntN(8) == 0,
			}
			if rng.IntN(3) == 0 {
				tc.Budgets = []Budget{{Unit: UnitTokens, Limit: 1e12, Per: budget.Month}}
			}
			if rng.IntN(3) == 0 {
				tc.InPool = map[string]Limits{"p": {TPM: pick(0, 1e6), Concurrency: pick(0, 5)}}
			}
			if rng.IntN(2) == 0 {
				tc.Members = &Members{Each: Tenant{Weight: escrow.Weight(pick(1, 3)), RPM: pick(0, 10_000), Concurrency: pick(0, 3)}}
				if rng.IntN(2) == 0 {
					tc.Members.Each.Budgets = []Budget{{Unit: UnitTokens, Limit: 1e12, Per: budget.Month}}
				}
			}
			if name[0] == 'g' && rng.IntN(2) == 0 {
				tc.Group = "g"
				tc.GroupWeight = 2
			}
			if up := terms.TeamOf(name); rng.IntN(6) > 0 && (up == "" || len(cfg.Tenants) > 0 && hasTenant(cfg, up)) {
				cfg.Tenants = append(cfg.Tenants, tc)
			}
		}
		return cfg
	}
	rng := rand.New(rand.NewPCG(1, 2))
	g := must(t, random(rng))
	var went, refused, applied atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range 16 {
		rng := rand.New(rand.NewPCG(9, uint64(i)))
		wg.Go(func() {
			for !stop.Load() {
				who := []string{"a", "b", "org", "org/x", "org/x/1", "org/y", "g1", "g2"}[rng.IntN(8)]
				if rng.IntN(2) == 0 {
					who = terms.MemberName(who, strconv.Itoa(rng.IntN(4)))
				}
				l, rej := g.Acquire(t.Context(), Request{Tenant: who, Pool: "pq"[rng.IntN(2):][:1], Output: rng.Int64N(3000)})
				if rej != nil {
					refused.Add(1)
					continue
				}
				went.Add(1)
				if rng.IntN(2) == 0 {
					l.Progress(rng.Int64N(2000))
				}
				if ended := l.Settle(Usage{Output: rng.Int64N(3000)}); !ended {
					t.Error("a lease was lost")
				}
			}
		})
	}
	for range 400 {
		apply(t, g, random(rng))
		applied.Add(1)
	}
	stop.Store(true)
	wg.Wait()
	t.Logf("%d calls went and %d were refused while %d configurations were put in force", went.Load(), refused.Load(), applied.Load())
	if running, waiting := g.Leases(); running+waiting != 0 || went.Load() == 0 {
		t.Errorf("%d run, %d wait, and %d went", running, waiting, went.Load())
	}
	healthy(t, g)
	everybody := maps.Clone(g.tenants)
	for _, tn := range g.tenants {
		if tn.roster != nil {
			for _, m := range tn.roster.list {
				everybody[m.name] = m.tenant
			}
		}
	}
	for name, tn := range everybody {
		if tn.over == nil { // never called
			continue
		}
		all := []*ownLimits{tn.over}
		for _, o := range tn.in {
			all = append(all, o)
		}
		for _, o := range all {
			waiting, cost := o.set.InLine()
			if o.set.Running() != 0 || waiting != 0 || o.set.Due() != (limits.Cost{}) || cost != (limits.Cost{}) {
				t.Errorf("%s %s: %d run, %d wait, %v is due", name, o.pool, o.set.Running(), waiting, o.set.Due())
			}
			for _, a := range o.caps {
				if a.pending != 0 {
					t.Errorf("%s: %d of %s are held", name, a.pending, a.Name())
				}
			}
		}
	}
}

func hasTenant(cfg Config, name string) bool {
	for _, tc := range cfg.Tenants {
		if tc.Name == name {
			return true
		}
	}
	return false
}

// many is a configuration of n tenants, in groups if there are any.
func many(n, pools, groups int) Config {
	var cfg Config
	for i := range pools {
		cfg.Pools = append(cfg.Pools, Pool{Name: fmt.Sprintf("p%d", i), TPM: 1e9, RPM: 1e6, Concurrency: 1e5, MaxQueue: 1000, Burst: time.Minute})
	}
	for i := range n {
		tc := Tenant{Name: fmt.Sprintf("tenant-%d", i), Weight: 1, RPM: 1e4, TPM: 1e6, Concurrency: 100, MaxWait: time.Second}
		if groups > 0 {
			tc.Group = fmt.Sprintf("g%d", i%groups)
			tc.GroupWeight = 1
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
	p := g.table.inOrder.pools[0]
	var leases []Lease
	for i := range n {
		l := admitted(t, g, Request{Tenant: fmt.Sprintf("tenant-%d", i), Pool: "p0", Output: 10})
		leases = append(leases, l)
	}
	leafOf := func(tenant string) any { return g.table.tenants[tenant].access[0].seat.leaf }
	before := leafOf("tenant-7")
	apply(t, g, many(n, 1, 10))
	if got := len(p.tree.retired); got != n {
		t.Errorf("%d nodes wait for the end of their calls, want %d", got, n)
	}
	apply(t, g, many(n, 1, 0))
	if got := len(p.tree.retired); leafOf("tenant-7") != before || got < n+10-sweepStride {
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
	if got := len(p.tree.retired); got != 0 {
		t.Errorf("%d nodes of who is gone are in the tree still", got)
	}
	healthy(t, g)
}

// BenchmarkCrowd has a thousand to a hundred thousand tenants: what a call costs when all have called, what a configuration in which one of
// them has changed, a look at all or a copy of what is to outlive the process, how long calls take that come meanwhile, and how long the lock is held.
func BenchmarkCrowd(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		cfg := many(n, 1, 0)
		for i := range cfg.Tenants {
			cfg.Tenants[i].RPM = 1e9
			cfg.Tenants[i].TPM = 1e9
		}
		cfg.Pools[0].TPM = escrow.MaxLimit
		cfg.Pools[0].RPM = 0
		cfg.Pools[0].Concurrency = 0
		g := must(b, cfg)
		call := func(i int) {
			l := admitted(b, g, Request{Tenant: cfg.Tenants[i%n].Name, Pool: "p0", Input: 10, Output: 10})
			l.Settle(Usage{Input: 10, Output: 5})
		}
		for name, do := range map[string]func(i int){
			"apply": func(i int) {
				cfg.Tenants[n/2].Weight = escrow.Weight(1000 + i%2)
				testkit.OK(b, g.Apply(cfg))
			},
			"state": func(int) { g.State() },
			"saved": func(int) { g.Saved() },
		} {
			b.Run(fmt.Sprint(name, "/", n), func(b *testing.B) {
				for what, beside := range map[string]func(i int) time.Duration{
					"call": func(i int) time.Duration {
						time.Sleep(100 * time.Microsecond)
						began := time.Now()
						call(i % 100)
						return time.Since(began)
					},
					"hold": func(int) time.Duration { return holdOf(g) },
				} {
					b.Run(what, func(b *testing.B) {
						var took []time.Duration
						ctx, stop := context.WithCancel(b.Context())
						var wg sync.WaitGroup
						wg.Go(func() {
							for i := 0; ctx.Err() == nil; i++ {
								took = append(took, beside(i))
							}
						})
						for i := 0; b.Loop(); i++ {
							do(i)
						}
						stop()
						wg.Wait()
						slices.Sort(took)
						b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "longest-ms")
						b.ReportMetric(float64(took[len(took)*999/1000].Microseconds())/1000, "p99.9-ms")
					})
				}
			})
		}
		for i := range n {
			call(i)
		}
		b.Run(fmt.Sprint("call/", n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				call(i * 7919)
			}
		})
	}
}

// holdOf spins until somebody has the governor's lock, and returns for how long it saw it held. It waits for no more than a millisecond.
func holdOf(g *Governor) time.Duration {
	free := func() bool {
		if !g.mu.TryLock() {
			return false
		}
		g.mu.Unlock()
		return true
	}
	for began := time.Now(); free(); {
		if time.Since(began) > time.Millisecond {
			return 0
		}
	}
	began := time.Now()
	for !free() {
	}
	return time.Since(began)
}

// Limits in a pool that are taken off hold nobody up any more, who waits for them
// already included.
func TestApply_LimitsInAPoolAreTakenOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{
			Pools:   []Pool{{Name: "p", TPM: 60_000, MaxQueue: 10}},
			Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: time.Hour, InPool: map[string]Limits{"p": {Concurrency: 1}}}},
		}
		g := must(t, cfg)
		first, _ := g.Acquire(t.Context(), demand("a", 1))
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				l, rej := Refused(g.Acquire(t.Context(), demand("a", 1)))
				if rej != nil || l.Waited > time.Second {
					t.Errorf("a call waited %v for a limit that was taken off (%v)", l.Waited, rej)
				}
				l.Settle(Usage{})
			})
		}
		synctest.Wait()
		cfg.Tenants = []Tenant{{Name: "a", Weight: 1, MaxWait: time.Hour}}
		apply(t, g, cfg)
		time.Sleep(10 * time.Minute)
		first.Settle(Usage{})
		wg.Wait()
	})
}

// A call on its way to a pool that is taken away, in the line of its tenant, is refused at once. It holds nothing of the pool that comes back
// under the name.
func TestApply_APoolGoesBeforeACallComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		with := Config{
			Pools:   []Pool{{Name: "p", Concurrency: 1, MaxQueue: 10}, {Name: "q", TPM: 100_000, MaxQueue: 10}},
			Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: time.Hour, Concurrency: 1}},
		}
		without := with
		without.Pools = with.Pools[1:]
		g := must(t, with)
		first, _ := g.Acquire(t.Context(), Request{Tenant: "a", Pool: "q", Output: 1})
		var rej *Refusal
		var wg sync.WaitGroup
		wg.Go(func() { _, rej = Refused(g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", Output: 1})) })
		time.Sleep(time.Minute)
		apply(t, g, without)
		wg.Wait()
		if rej == nil || rej.Reason != ReasonUnknown || rej.Waited != time.Minute {
			t.Errorf("the call got %v", rej)
		}
		apply(t, g, with)
		first.Settle(Usage{})
		admitted(t, g, Request{Tenant: "a", Pool: "p", Output: 1}).Settle(Usage{})
	})
}

// What a tenant has in a pool goes with the pool.
func TestApply_PoolsThatAreGoneAreForgottenByTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		renamed := func(i int) Config {
			name := fmt.Sprintf("p%d", i)
			return Config{
				Pools:   []Pool{{Name: name, TPM: 1000}},
				Tenants: []Tenant{{Name: "a", Weight: 1, InPool: map[string]Limits{name: {TPM: 5}}}},
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
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !stop.Load() {
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
	stop.Store(true)
	wg.Wait()
}

// Who is gone while it waits for its own limits is told so at once, and how long it has waited.
func TestApply_WhoIsGoneIsToldHowLongItWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{
			Pools:   []Pool{{Name: "p", TPM: 60_000, MaxQueue: 10}},
			Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: time.Hour, Concurrency: 1}, {Name: "b", Weight: 1}},
		}
		g := must(t, cfg)
		first, _ := g.Acquire(t.Context(), demand("a", 1))
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, rej := Refused(g.Acquire(t.Context(), demand("a", 1))); rej == nil || rej.Reason != ReasonUnknown || rej.Waited != time.Minute {
				t.Errorf("it got %+v, want that it is not known, after a minute", rej)
			}
		})
		time.Sleep(time.Minute)
		cfg.Tenants = cfg.Tenants[1:]
		apply(t, g, cfg)
		wg.Wait()
		first.Settle(Usage{})
		if n := g.tenants["a"].over.set.Running(); n != 0 {
			t.Errorf("%d calls are held of its limits", n)
		}
	})
}
