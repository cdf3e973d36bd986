package runner_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/federation/memory"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/sharing"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// TestUsage_IsOfAllGateways: refusals, rate headers, explanations and the state tell what all
// gateways have used of a pool's minute, as of the last beat, plus what this one has used since.
func TestUsage_IsOfAllGateways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 60_000
		cfg := governor.Config{
			Shared: true, SharedSlots: true,
			Pools:   []governor.Pool{{Name: "p", TPM: limit, RPM: 1000, Burst: 50 * time.Second, MaxQueue: 100}},
			Tenants: []governor.Tenant{{Name: "a", Weight: 1, MaxWait: 5 * time.Second}, {Name: "b", Weight: 1}},
		}
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		store := memory.New(memory.Config{Fresh: true})
		var gateways []*berth
		for range 2 {
			gateways = append(gateways, begin(ctx, t, &group, store, cfg))
		}
		time.Sleep(30 * time.Second) // an idle pool saves up its burst
		used := int64(0)
		calls := int64(0)
		for began := time.Now(); time.Since(began) < 35*time.Second; { // until a refusal tells of it, and before any of it leaves the minute
			for _, b := range gateways {
				l, rej := governor.Refused(b.Acquire(t.Context(), governor.Request{Tenant: "a", Pool: "p", Output: 3000}))
				if rej == nil {
					used += 3000
					calls++
					l.Settle(governor.Usage{Output: 3000})
				}
			}
			time.Sleep(2 * time.Second)
		}
		time.Sleep(time.Second) // with the last two, each has told, and heard of the other
		for i, b := range gateways {
			if got := b.State().Pools[0].Axes[escrow.Tokens].Used; got != used {
				t.Errorf("gateway %d: of the pool's tokens %d are used by its state, want %d", i, got, used)
			}
			if here := b.State().Pools[0].UsedHere[escrow.Tokens]; here <= 0 || here >= used {
				t.Errorf("gateway %d: %d of %d tokens are its own", i, here, used)
			}
			if got := b.Standing("b", "p").Tokens; got.Remaining != limit-used || got.Reset < 55*time.Second {
				t.Errorf("gateway %d: %d tokens remain by the headers, want %d; reset after %v", i, got.Remaining, limit-used, got.Reset)
			}
			if got := b.Standing("b", "p").Requests; got.Remaining != 1000-calls {
				t.Errorf("gateway %d: %d requests remain by the headers, want %d", i, got.Remaining, 1000-calls)
			}
			o, _ := b.Explain(governor.Request{Tenant: "b", Pool: "p", Output: 30_000})
			for _, c := range o.Checks {
				if c.Axis == "tokens" && c.Tenant == "" && c.Used != used {
					t.Errorf("gateway %d: %d are used by its explanation, want %d", i, c.Used, used)
				}
			}
			_, rej := governor.Refused(b.Acquire(t.Context(), governor.Request{Tenant: "b", Pool: "p", Output: 60_000}))
			if rej == nil || rej.Used != used || !strings.Contains(rej.Error(), "Limit 60000") {
				t.Errorf("gateway %d: a refusal says %v, want %d used", i, rej, used)
			}
		}
		l, rej := governor.Refused(gateways[0].Acquire(t.Context(), governor.Request{Tenant: "b", Pool: "p", Output: 100}))
		if rej != nil {
			t.Fatal(rej)
		}
		if got := gateways[0].State().Pools[0].Axes[escrow.Tokens].Used; got != used+100 {
			t.Errorf("with a call since the last beat %d are used, want %d", got, used+100)
		}
		l.Release()
		for _, b := range gateways { // nobody tells any more
			b.way.cut.Store(true)
		}
		time.Sleep(61 * time.Second)
		for i, b := range gateways {
			if got := b.State().Pools[0].Axes[escrow.Tokens].Used; got != 0 {
				t.Errorf("gateway %d: a minute later %d are used", i, got)
			}
		}
		stop()
		group.Wait()
	})
}

// TestReload_NewBudgetsCountWhatAllGatewaysUsed: a budget that a reload adds, of a tenant or of a
// pool, counts what each gateway has used before.
func TestReload_NewBudgetsCountWhatAllGatewaysUsed(t *testing.T) {
	list := []governor.Budget{{Unit: governor.UnitTokens, Limit: 1000, Per: budget.Day}}
	for name, edit := range map[string]func(*governor.Config){
		"tenant": func(cfg *governor.Config) { cfg.Tenants[0].Budgets = list },
		"strict": func(cfg *governor.Config) { cfg.Tenants[0].Budgets = list },
		"pool":   func(cfg *governor.Config) { cfg.Pools[0].Budgets = list },
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			newConfig := func() governor.Config {
				cfg := governor.Config{
					Shared: true, SharedSlots: true, SharedLimits: true,
					Pools:   []governor.Pool{{Name: "p", TPM: 1e6, Burst: 10 * time.Second, MaxQueue: 100}},
					Tenants: []governor.Tenant{{Name: "a", Weight: 1, MaxWait: time.Second}},
				}
				if name == "strict" {
					cfg.Pools[0].TenantLimits = governor.LimitsStrict
				}
				return cfg
			}
			ctx, stop := context.WithCancel(t.Context())
			var group sync.WaitGroup
			store := memory.New(memory.Config{Fresh: true})
			var gateways []*berth
			for range 2 {
				gateways = append(gateways, begin(ctx, t, &group, store, newConfig()))
			}
			time.Sleep(3 * time.Second)
			call := func(b *berth, tokens int64) bool {
				l, rej := b.Acquire(t.Context(), governor.Request{Tenant: "a", Pool: "p", Output: tokens})
				if rej == nil {
					l.Settle(governor.Usage{Output: tokens})
				}
				return rej == nil
			}
			if !call(gateways[0], 400) || !call(gateways[1], 500) {
				t.Fatal("without a budget a call was refused")
			}
			cfg := newConfig()
			edit(&cfg)
			for _, b := range gateways {
				testkit.OK(t, b.Apply(cfg))
			}
			time.Sleep(3 * time.Second)
			served := 0
			for range 20 {
				for _, b := range gateways {
					if call(b, 10) {
						served += 10
					}
					time.Sleep(time.Second)
				}
			}
			// A part of the rest may be at a gateway that has too little of it for one more call.
			if served > 100 || served < 80 {
				t.Errorf("900 of 1000 were used before the reload, and %d after it", served)
			}
			stop()
			group.Wait()
		})
	}
}

// branches are gateways that share a pool of two upstreams with limits of their own.
type branches struct {
	t     *testing.T
	store *memory.Store

	mu   sync.Mutex
	used map[string][]letIn // by upstream
	got  map[string]int64   // by tenant
}

// join starts a gateway.
func (b *branches) join(ctx context.Context, name string) *governor.Governor {
	g := testkit.Must(governor.New(governor.Config{
		Shared: true, SharedLimits: true,
		Pools: []governor.Pool{{
			Name: "p", TPM: 480_000, Burst: 10 * time.Second, MaxQueue: 10_000,
			Upstreams: []governor.Upstream{{Name: "ptu", Weight: 1, TPM: 120_000}, {Name: "paid", Weight: 1, Order: 1, TPM: 360_000}},
		}},
		Tenants: []governor.Tenant{
			{Name: "a", Weight: 3, MaxWait: time.Hour},
			{Name: "b", Weight: 1, MaxWait: time.Hour},
		},
	}))(b.t)
	side := sharing.New(g)
	pools := runner.New(runner.Config{Name: name, Region: "r", Instance: name, Store: b.store, Pools: side.Pools})
	limits := runner.NewLimits(runner.LimitsConfig{Instance: rand.Text(), Store: b.store, More: side.More(), Sign: side.Sign, Limits: side.Limits, Calls: side.Calls})
	go func() { _ = pools.Run(ctx) }()
	go func() { _ = limits.Run(ctx) }()
	<-pools.First()
	return g
}

// call makes calls of a tenant, one after the other, until the context ends.
func (b *branches) call(ctx context.Context, g *governor.Governor, tenant string) {
	for ctx.Err() == nil {
		lease, rej := governor.Refused(g.Acquire(ctx, governor.Request{Tenant: tenant, Pool: "p", Input: 500, Output: 200}))
		if rej != nil {
			if ctx.Err() == nil {
				b.t.Errorf("%s: %v", tenant, rej)
			}
			return
		}
		now := time.Now()
		b.mu.Lock()
		b.used[lease.Upstream()] = append(b.used[lease.Upstream()], letIn{now, now, 700})
		b.got[tenant] += 700
		b.mu.Unlock()
		time.Sleep(300 * time.Millisecond)
		lease.Settle(governor.Usage{Input: 500, Output: 200})
	}
}

// in is the amount that was used of an upstream from a time on, and the most in any minute.
func (b *branches) in(upstream string, from time.Time) (since, most int64) {
	sum := int64(0)
	first := 0
	list := b.used[upstream]
	for _, x := range list {
		if x.began.After(from) {
			since += x.cost
		}
		sum += x.cost
		for x.began.Sub(list[first].began) >= time.Minute {
			sum -= list[first].cost
			first++
		}
		most = max(most, sum)
	}
	return since, most
}

// Gateways that share upstreams' limits never exceed one together, use the first of them before the next, and share both by
// weight; also after one of the gateways dies.
func TestUpstreams_Shared(t *testing.T) {
	for _, gateways := range []int{1, 3} {
		testkit.Virtual(t, fmt.Sprint(gateways), func(t *testing.T) {
			b := &branches{t: t, store: memory.New(memory.Config{Fresh: true}), used: map[string][]letIn{}, got: map[string]int64{}}
			ctx, stop := context.WithCancel(t.Context())
			var callers sync.WaitGroup
			for i := range gateways {
				g := b.join(ctx, fmt.Sprint("n", i))
				for _, tenant := range []string{"a", "b"} {
					for range 24 {
						callers.Go(func() { b.call(ctx, g, tenant) })
					}
				}
			}
			time.Sleep(3 * time.Minute)
			from := time.Now()
			b.mu.Lock()
			clear(b.got)
			b.mu.Unlock()
			minutes := int64(testkit.Rounds(2, 5))
			time.Sleep(time.Duration(minutes) * time.Minute)
			stop()
			callers.Wait()
			first, mostFirst := b.in("ptu", from)
			spare, mostSpare := b.in("paid", from)
			ratio := float64(b.got["a"]) / float64(b.got["b"])
			t.Logf("%.3f and %.3f used, %d and %d at most in a minute, shares %.2f : 1", float64(first)/float64(120_000*minutes), float64(spare)/float64(360_000*minutes), mostFirst, mostSpare, ratio)
			if mostFirst > 120_000 || mostSpare > 360_000 {
				t.Errorf("%d and %d tokens in a minute", mostFirst, mostSpare)
			}
			if first*100 < 95*120_000*minutes || spare*100 < 93*360_000*minutes {
				t.Error("too little of it")
			}
			if ratio < 2.8 || ratio > 3.2 {
				t.Errorf("shares of %.2f : 1, want 3", ratio)
			}
		})
	}
}

// settled is one pool of which calls count when they end.
func settled() governor.Config {
	return governor.Config{
		Shared:  true,
		Pools:   []governor.Pool{{Name: "p", TPM: limit, Burst: 10 * time.Second, MaxQueue: 100, Accounting: escrow.Settled}},
		Tenants: []governor.Tenant{{Name: "a", Weight: 1, MaxWait: 10 * time.Second}},
	}
}

// embedder is a process that ends its streams when they count with nobody else any more.
type embedder struct {
	gov       *governor.Governor
	run       *runner.Runner
	net       *network
	ended     atomic.Int64
	mu        sync.Mutex
	uncounted []lapse // guarded by mu
}

// lapse is what it was told, and when.
type lapse struct {
	after time.Duration
	cause error
}

func newEmbedder(t *testing.T, w *world, store runner.Store, instance string) *embedder {
	gov := testkit.Must(governor.New(settled()))(t)
	began := time.Now()
	e := &embedder{gov: gov, net: &network{Store: store, delay: time.Millisecond}}
	e.run = runner.New(runner.Config{
		Name: "n", Instance: instance, Store: e.net, Pools: poolsOf(gov),
		Uncounted: func(pool string, cause error) {
			e.mu.Lock()
			e.uncounted = append(e.uncounted, lapse{time.Since(began), cause})
			e.mu.Unlock()
			gov.Interrupt(pool, cause)
		},
	})
	w.group.Go(func() { _ = e.run.Run(w.ctx) })
	<-e.run.First()
	return e
}

// stream is a call that goes on until it is cut.
func (e *embedder) stream(t *testing.T, w *world) {
	ctx, cancel := context.WithCancelCause(w.ctx)
	l, rej := governor.Refused(e.gov.Acquire(ctx, governor.Request{Tenant: "a", Pool: "p", Input: 100, Output: 100, Stream: true, Interrupt: governor.InterruptFunc(cancel)}))
	if rej != nil {
		t.Error(rej)
		return
	}
	w.group.Go(func() {
		<-ctx.Done()
		if l.Break(governor.Usage{Input: 100, Output: 50}) && context.Cause(ctx) != context.Canceled {
			e.ended.Add(1)
		}
	})
}

// wants is how many streams were cut, and what was told, a beat sooner or later.
func (e *embedder) wants(t *testing.T, when string, ended int64, told ...lapse) {
	t.Helper()
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended.Load() != ended || !slices.EqualFunc(e.uncounted, told, func(a, b lapse) bool {
		return a.cause == b.cause && (a.after-b.after).Abs() < 2*time.Second
	}) {
		t.Errorf("%s: %d streams were cut, want %d; %v was told, want %v", when, e.ended.Load(), ended, e.uncounted, told)
	}
}

// TestUncounted_Fenced: the streams of a process that was fenced go on as long as they count
// with others, and are then ended by who wants that.
func TestUncounted_Fenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Config{Fresh: true})
		w := newWorldOf(t, store, settled())
		old := newEmbedder(t, w, store, "old")
		for range 20 {
			old.stream(t, w)
		}
		time.Sleep(100 * time.Second)
		old.wants(t, "all is well", 0)
		young := newEmbedder(t, w, store, "young")
		time.Sleep(58 * time.Second)
		if !old.run.Fenced() {
			t.Fatal("it is not fenced")
		}
		old.wants(t, "58 s after it was fenced", 0)
		time.Sleep(3 * time.Second)
		old.wants(t, "61 s after it was fenced", 20, lapse{160 * time.Second, runner.ErrFenced})
		time.Sleep(5 * time.Minute)
		old.wants(t, "minutes after it was fenced", 20, lapse{160 * time.Second, runner.ErrFenced})
		young.wants(t, "minutes after it came", 0)
	})
}

// TestUncounted_CutOff: so are those of a process that is cut off for as long; once each time,
// and never where others hear of it in between.
func TestUncounted_CutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Config{Fresh: true})
		w := newWorldOf(t, store, settled())
		e := newEmbedder(t, w, store, "i")
		lose := func(d time.Duration) {
			e.stream(t, w)
			e.net.cut.Store(true)
			time.Sleep(d)
			e.net.cut.Store(false)
			time.Sleep(10 * time.Second)
		}
		lose(50 * time.Second)
		lose(50 * time.Second)
		e.wants(t, "twice cut off for 50 s", 0)
		lose(5 * time.Minute)
		first := lapse{3 * time.Minute, runner.ErrCutOff}
		e.wants(t, "cut off for minutes", 3, first)
		lose(70 * time.Second)
		e.wants(t, "cut off again", 4, first, lapse{490 * time.Second, runner.ErrCutOff})
	})
}

// TestUncounted_Held: until it is told, the store counts what runs: of a limit that one holds
// whole, another gets nothing.
func TestUncounted_Held(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Config{Fresh: true})
		w := newWorldOf(t, store, settled())
		old := newEmbedder(t, w, store, "old")
		const streams, each = 2000, 200
		for range streams {
			old.stream(t, w)
			time.Sleep(30 * time.Millisecond)
		}
		young := newEmbedder(t, w, store, "young")
		began := time.Now()
		admitted := int64(0)
		for old.ended.Load() == 0 && time.Since(began) < 2*time.Minute {
			l, rej := young.gov.Acquire(w.ctx, governor.Request{Tenant: "a", Pool: "p", Input: each})
			if rej == nil {
				admitted += each
				l.Settle(governor.Usage{Input: each})
			}
			time.Sleep(20 * time.Millisecond)
		}
		if admitted > limit-streams*each || admitted < (limit-streams*each)*9/10 {
			t.Errorf("beside streams that hold %d of %d another process was let have %d", streams*each, limit, admitted)
		}
		synctest.Wait()
		if n := old.ended.Load(); n != streams {
			t.Errorf("%d streams were cut, want %d", n, streams)
		}
	})
}
