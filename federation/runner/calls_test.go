package runner_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/federation/memory"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// asker is a gateway whose calls ask, with a way of its own to the store.
type asker struct {
	*office
	way *shares
}

// askers starts gateways of one pool, and has them ended with the test.
func askers(t *testing.T, n int, pool governor.Pool, list ...governor.Tenant) []*asker {
	t.Helper()
	store := memory.New(memory.Config{})
	out := make([]*asker, n)
	for i := range out {
		out[i] = askerOf(t, store, pool, list...)
	}
	return out
}

func askerOf(t *testing.T, store *memory.Store, pool governor.Pool, list ...governor.Tenant) *asker {
	t.Helper()
	way := &shares{away: 5 * time.Millisecond}
	way.store.Store(store)
	return &asker{openWith(t, way, askConfig(pool, list...)), way}
}

func askConfig(pool governor.Pool, list ...governor.Tenant) governor.Config {
	pool.Name = "p"
	pool.Concurrency = 10_000
	pool.MaxQueue = 1000
	for i := range list {
		list[i].Weight = 1
		if list[i].Name == "" {
			list[i].Name = "a"
		}
	}
	return governor.Config{Shared: true, SharedLimits: true, Pools: []governor.Pool{pool}, Tenants: list}
}

func officesOf(list []*asker) (out []*office) {
	for _, a := range list {
		out = append(out, a.office)
	}
	return out
}

// one is one call, and how it went.
func one(a *asker, tenant string, tokens int64) (governor.Lease, *governor.Refusal) {
	return governor.Refused(a.Acquire(context.Background(), governor.Request{Tenant: tenant, Pool: "p", Input: tokens}))
}

// goes is a call of tenant a that is let in.
func goes(t *testing.T, a *asker, tokens int64) governor.Lease {
	t.Helper()
	l, rej := one(a, "a", tokens)
	if rej != nil {
		t.Fatal(rej)
	}
	return l
}

var strict = governor.Pool{TenantLimits: governor.LimitsStrict}

// TestAsk_Exact: three gateways admit exactly what one would: all of a minute in the first
// moments, wherever the calls come in, and no more; and calls at once and budgets likewise.
func TestAsk_Exact(t *testing.T) {
	for _, mode := range []governor.LimitsMode{governor.LimitsStrict, governor.LimitsCachedDeny} {
		synctest.Test(t, func(t *testing.T) {
			list := askers(t, 3, governor.Pool{TenantLimits: mode}, governor.Tenant{
				RPM: 60, Concurrency: 7, Budgets: []governor.Budget{{Unit: governor.UnitRequests, Limit: 100, Per: budget.Month}},
			})
			var l load
			began := time.Now()
			l.flood(officesOf(list), 5, 10*time.Second, 20*time.Millisecond, 200*time.Millisecond)
			first := len(l.used)
			l.flood(officesOf(list), 5, 45*time.Second, 200*time.Millisecond, 200*time.Millisecond)
			l.flood(officesOf(list), 5, 10*time.Second, 20*time.Millisecond, 200*time.Millisecond) // around the end of the first minute
			l.flood(officesOf(list), 5, 65*time.Second, 200*time.Millisecond, 200*time.Millisecond)
			if most, at := l.most(time.Minute), l.atOnce(); first != 60 || most != 60 || at != 7 || len(l.used) != 100 {
				t.Errorf("mode %d: %d calls in the first seconds, at most %d in a minute and %d at once, in all %d", mode, first, most, at, len(l.used))
			}
			for _, u := range l.used[60:] {
				if late := u.began.Sub(began) - time.Minute; late < 0 || late > 3*time.Second {
					t.Errorf("a call of the second minute began %v after that", late)
				}
			}
		})
	}
}

// TestBudget_ThenBackground: where calls beyond a budget go in the background none is refused by it, at whichever of two gateways and however these
// count, and all are counted.
func TestBudget_ThenBackground(t *testing.T) {
	for _, mode := range []governor.LimitsMode{governor.LimitsLeased, governor.LimitsStrict, governor.LimitsCachedDeny} {
		synctest.Test(t, func(t *testing.T) {
			store := &shares{away: 5 * time.Millisecond}
			list := officesIn(t, 2, store, governor.Tenant{Budgets: []governor.Budget{{Unit: governor.UnitRequests, Limit: 20, Per: budget.Month, Background: true}}}, mode)
			var l load
			for range 50 {
				for _, o := range list {
					if rej, _ := l.ask(o, 100*time.Millisecond, 100*time.Millisecond); rej != nil {
						t.Fatalf("mode %d: after %d calls: %v", mode, len(l.used), rej)
					}
				}
			}
			time.Sleep(3 * time.Second)
			l.ask(list[0], 0, 0)
			if b := list[0].State().Tenants[0].Budgets[0]; b.Used < 100 || b.Used > 102 {
				t.Errorf("mode %d: %d are told as used of 101", mode, b.Used)
			}
		})
	}
}

// TestAsk_OneRoundTrip: each call that is admitted costs one round trip, also where nothing was
// known, and waits for nothing else; many at once share one.
func TestAsk_OneRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := askers(t, 1, strict, governor.Tenant{RPM: 1000, TPM: 1e6, Concurrency: 50}, governor.Tenant{Name: "a/b", TPM: 1e6})
		for i := range 20 {
			l, rej := one(list[0], "a/b", 100)
			if rej != nil || l.Waited != 10*time.Millisecond {
				t.Fatalf("call %d waited %v, %v", i, l.Waited, rej)
			}
			l.Settle(governor.Usage{Input: 100})
			time.Sleep(400 * time.Millisecond)
		}
		if n := list[0].way.asks.Load(); n != 20 {
			t.Errorf("20 calls took %d round trips", n)
		}
		done := make(chan *governor.Refusal)
		for range 40 {
			go func() {
				l, rej := one(list[0], "a/b", 100)
				defer l.Settle(governor.Usage{Input: 100})
				done <- rej
			}()
		}
		for range 40 {
			if rej := <-done; rej != nil {
				t.Error(rej)
			}
		}
		if n := list[0].way.asks.Load(); n > 23 {
			t.Errorf("40 calls at once took %d round trips", n-20)
		}
	})
}

// TestAsk_RetryAfter: a gateway that has heard of nothing says when there will be room, by what
// others used and when; who comes back then goes.
func TestAsk_RetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := askers(t, 2, strict, governor.Tenant{RPM: 20, TPM: 20_000})
		for range 20 {
			goes(t, list[0], 500).Settle(governor.Usage{Input: 500})
		}
		time.Sleep(50 * time.Second)
		_, rej := one(list[1], "a", 1)
		if rej == nil || rej.Reason != governor.ReasonRequests || rej.Limit != 20 || rej.Used != 20 || rej.RetryAfter < 9*time.Second || rej.RetryAfter > 12*time.Second {
			t.Fatalf("50 s later another gateway says %+v", rej)
		}
		time.Sleep(rej.RetryAfter)
		_, rej = one(list[1], "a", 1)
		if rej != nil {
			t.Errorf("who came back when told: %v", rej)
		}
	})
}

// TestAsk_Lost: where nobody answers within 50 ms the pool's rule decides, and says so; with an
// answer all is as before.
func TestAsk_Lost(t *testing.T) {
	for _, c := range []struct {
		pool  governor.Pool
		mode  string
		goes  int
		after governor.Reason
	}{
		{governor.Pool{}, "closed", 0, governor.ReasonStoreLost},
		{governor.Pool{OnLoss: governor.LossOpen}, "open", 20, governor.ReasonRequests},
		{governor.Pool{OnLoss: governor.LossLocal, LocalPPM: 400_000, ExpectNodes: 2}, "local", 4, governor.ReasonStoreLost},
		{governor.Pool{OnLoss: governor.LossLocal, LocalPPM: 400_000}, "local", 0, governor.ReasonStoreLost},
	} {
		synctest.Test(t, func(t *testing.T) {
			c.pool.TenantLimits = governor.LimitsStrict
			list := askers(t, 1, c.pool, governor.Tenant{RPM: 20})
			g := list[0]
			g.way.lost.Store(true)
			for i := range 30 {
				began := time.Now()
				l, rej := one(g, "a", 1)
				if took := time.Since(began); took > 50*time.Millisecond || i == 0 && took != 50*time.Millisecond {
					t.Errorf("%s: call %d was decided after %v", c.mode, i, took)
				}
				l.Settle(governor.Usage{Input: 1})
				if went := rej == nil; went != (i < c.goes) {
					t.Errorf("%s: call %d: %v", c.mode, i, rej)
				}
				if rej != nil && (rej.Reason != c.after || rej.RetryAfter < time.Second) {
					t.Errorf("%s: call %d: %v, in %v: %v", c.mode, i, rej.Reason, rej.RetryAfter, rej)
				}
				if mode := g.Degraded("p"); mode != c.mode {
					t.Errorf("it says %q, want %q", mode, c.mode)
				}
			}
			g.way.lost.Store(false)
			time.Sleep(3 * time.Second)
			n := 0
			for range 30 {
				if _, rej := one(g, "a", 1); rej == nil {
					n++
				}
			}
			if mode := g.Degraded("p"); n != 20-c.goes || mode != "" {
				t.Errorf("%s: with the store back %d calls went; it says %q", c.mode, n, mode)
			}
		})
	}
}

// TestAsk_Blip: a moment in which the store does not answer is over for all tenants as soon as what was
// asked in it is given up, however many ask at once.
func TestAsk_Blip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var list []governor.Tenant
		for i := range 50 {
			list = append(list, governor.Tenant{Name: fmt.Sprint("t", i), RPM: 1_000_000})
		}
		g := askers(t, 1, strict, list...)[0]
		ctx, stop := context.WithCancel(t.Context())
		began := time.Now()
		away := time.Second
		last := time.Duration(0)
		refused := 0
		var mu sync.Mutex
		var group sync.WaitGroup
		for _, tenant := range list {
			group.Go(func() {
				for ctx.Err() == nil {
					if l, rej := one(g, tenant.Name, 1); rej == nil {
						l.Settle(governor.Usage{Input: 1})
					} else {
						mu.Lock()
						last = time.Since(began)
						refused = refused + 1
						mu.Unlock()
					}
					time.Sleep(400 * time.Millisecond) // so nobody waits when what was asked is given up
				}
			})
		}
		time.Sleep(away - time.Since(began))
		g.way.lost.Store(true)
		time.Sleep(450 * time.Millisecond)
		g.way.lost.Store(false)
		time.Sleep(5 * time.Second)
		stop()
		group.Wait()
		// An answer is waited for 250 ms.
		if refused == 0 || last > away+700*time.Millisecond {
			t.Errorf("%d calls were refused, the last after %v, of a store that was away for 450 ms after %v", refused, last, away)
		}
	})
}

// TestAsk_Late: what is let in after the call has given up is given back.
func TestAsk_Late(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := askers(t, 2, strict, governor.Tenant{Concurrency: 3, Budgets: []governor.Budget{{Unit: governor.UnitTokens, Limit: 3000, Per: budget.Month}}})
		list[0].way.away = 30 * time.Millisecond
		for range 5 {
			if _, rej := one(list[0], "a", 1000); rej == nil || rej.Reason != governor.ReasonStoreLost || rej.Waited < 50*time.Millisecond || rej.Waited > 60*time.Millisecond {
				t.Errorf("it says %v", rej)
			}
		}
		time.Sleep(time.Second)
		for range 3 {
			goes(t, list[1], 1000)
		}
	})
}

// TestAsk_FarAway: a store that answers in less than 50 ms serves all calls, whatever else is told it
// of their tenant, and however many come at once.
func TestAsk_FarAway(t *testing.T) {
	for _, c := range []struct{ away, callers, calls int }{{24, 1, 30}, {24, 10, 30}, {5, 1000, 1}} {
		synctest.Test(t, func(t *testing.T) {
			a := askers(t, 1, strict, governor.Tenant{RPM: 1_000_000, Concurrency: 1000})[0]
			a.way.away = time.Duration(c.away) * time.Millisecond
			testkit.AtOnce(c.callers, func(i int) {
				time.Sleep(time.Duration(i%10*7) * time.Millisecond)
				for range c.calls {
					l, rej := one(a, "a", 100)
					if rej != nil {
						t.Errorf("%+v: %v", c, rej)
						return
					}
					time.Sleep(301 * time.Millisecond)
					l.Settle(governor.Usage{Input: 50})
					time.Sleep(13 * time.Millisecond)
				}
			})
		})
	}
}

// TestAsk_Crash: calls of a gateway that has died are free when its time is over; what it has used
// counts on, once.
func TestAsk_Crash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenant := governor.Tenant{Concurrency: 3, RPM: 5, Budgets: []governor.Budget{{Unit: governor.UnitRequests, Limit: 7, Per: budget.Month}}}
		list := askers(t, 2, strict, tenant)
		for range 3 {
			goes(t, list[0], 1)
		}
		list[0].way.lost.Store(true) // it tells nothing any more
		list[0].stop()
		refusedFor := func(reason governor.Reason) {
			t.Helper()
			if _, rej := one(list[1], "a", 1); rej == nil || rej.Reason != reason {
				t.Errorf("it says %v, want %v", rej, reason)
			}
		}
		refusedFor(governor.ReasonConcurrency)
		time.Sleep(2600 * time.Millisecond)
		for range 2 {
			goes(t, list[1], 1)
		}
		refusedFor(governor.ReasonRequests)
		time.Sleep(65 * time.Second)
		goes(t, list[1], 1)
		refusedFor(governor.ReasonConcurrency)
	})
}

// TestAsk_Waits: a call over a limit waits for it as long as it may, goes soon after there is room,
// whoever gave that back, and does not ask all the time.
func TestAsk_Waits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := askers(t, 2, strict, governor.Tenant{Concurrency: 1, RPM: 3, MaxWait: 70 * time.Second})
		l, _ := one(list[0], "a", 1)
		time.AfterFunc(10*time.Second, func() { l.Settle(governor.Usage{Input: 1}) })
		began := time.Now()
		for i, least := range []time.Duration{10 * time.Second, 10 * time.Second, 60 * time.Second} {
			before := list[1].way.asks.Load()
			m, rej := one(list[1], "a", 1)
			if at := time.Since(began); rej != nil || at < least || at > least+2500*time.Millisecond {
				t.Errorf("call %d went after %v: %v", i, at, rej)
			}
			if n := list[1].way.asks.Load() - before; n > 16 {
				t.Errorf("call %d asked %d times", i, n)
			}
			m.Settle(governor.Usage{Input: 1})
		}
	})
}

// TestAsk_GivenBack: what a call does not take any more another gateway has at once.
func TestAsk_GivenBack(t *testing.T) {
	for name, tenant := range map[string]governor.Tenant{
		"slots":  {Concurrency: 2},
		"budget": {Budgets: []governor.Budget{{Unit: governor.UnitTokens, Limit: 2000, Per: budget.Month}}},
		"minute": {TPM: 2000},
	} {
		synctest.Test(t, func(t *testing.T) {
			list := askers(t, 2, strict, tenant)
			l, _ := one(list[0], "a", 1000)
			one(list[0], "a", 1000)
			time.Sleep(3 * time.Second)
			l.Settle(governor.Usage{Input: 100})
			began := time.Now()
			for _, rej := one(list[1], "a", 900); rej != nil; _, rej = one(list[1], "a", 900) {
				time.Sleep(5 * time.Millisecond)
			}
			if took := time.Since(began); took > 60*time.Millisecond {
				t.Errorf("%s: it took %v", name, took)
			}
		})
	}
}

// TestAsk_MemberWaits: a member whose only call waits for longer than members without calls are kept goes when its turn comes.
func TestAsk_MemberWaits(t *testing.T) {
	for _, mode := range []governor.LimitsMode{governor.LimitsStrict, governor.LimitsCachedDeny} {
		synctest.Test(t, func(t *testing.T) {
			g := askers(t, 1, governor.Pool{TenantLimits: mode}, governor.Tenant{Concurrency: 1, MaxWait: 10 * time.Minute, Members: &governor.Members{}})[0]
			first, rej := one(g, "a/~ann", 1)
			if rej != nil {
				t.Fatal(rej)
			}
			for i := range 8 { // each of which may forget others
				time.AfterFunc(time.Duration(1+25*i)*time.Second, func() {
					l, rej := one(g, fmt.Sprint("a/~b", i), 1)
					if rej != nil {
						t.Error(mode, i, rej)
					}
					l.Settle(governor.Usage{Input: 1})
				})
			}
			time.Sleep(5 * time.Minute)
			first.Settle(governor.Usage{Input: 1})
			time.Sleep(time.Minute)
		})
	}
}

// TestAsk_InLine: calls that wait at one gateway go in their order, one after another.
func TestAsk_InLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := askers(t, 1, strict, governor.Tenant{Concurrency: 1, MaxWait: time.Minute})
		order := make(chan int, 8)
		for i := range 8 {
			time.Sleep(30 * time.Millisecond) // more than a round trip
			go func() {
				l, rej := one(list[0], "a", 1)
				if rej != nil {
					t.Error(rej)
				}
				order <- i
				time.Sleep(300 * time.Millisecond)
				l.Settle(governor.Usage{Input: 1})
			}()
		}
		began := time.Now()
		for i := range 8 {
			if got := <-order; got != i {
				t.Errorf("call %d went as number %d", got, i)
			}
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("it took %v", took)
		}
		time.Sleep(time.Second)
	})
}

// TestAsk_LineEnds: a line that came of more than fit for a moment is worked off as there is room, though
// more come all the time than would go one after the other.
func TestAsk_LineEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := askers(t, 1, strict, governor.Tenant{Concurrency: 100, MaxWait: 5 * time.Second})[0]
		var group sync.WaitGroup
		call := func(run, most time.Duration) {
			group.Go(func() {
				l, rej := one(a, "a", 100)
				if rej != nil || l.Waited > most {
					t.Errorf("waited %v: %v", l.Waited, rej)
				}
				time.Sleep(run)
				l.Settle(governor.Usage{Input: 50})
			})
		}
		for range 130 {
			call(300*time.Millisecond, 500*time.Millisecond)
		}
		for i := range 1000 {
			call(50*time.Millisecond, max(50*time.Millisecond, 500*time.Millisecond-time.Duration(i)*time.Millisecond))
			time.Sleep(5 * time.Millisecond)
		}
		group.Wait()
	})
}

// TestAsk_Team: a call that its team has room for and its tenant has not leaves nothing behind.
func TestAsk_Team(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := askers(t, 2, strict, governor.Tenant{RPM: 2}, governor.Tenant{Name: "a/b", RPM: 2, Shadow: false})
		for range 2 {
			goes(t, list[0], 1)
		}
		for i := range 5 {
			_, rej := one(list[i%2], "a/b", 1)
			if rej == nil || rej.Tenant != "a" || rej.Reason != governor.ReasonRequests || rej.RetryAfter > 62*time.Second {
				t.Errorf("it says %+v", rej)
			}
			time.Sleep(time.Second)
			if st, _ := list[i%2].TenantState("a/b"); st.Limits[0].Used != 0 {
				t.Errorf("the team has used %d", st.Limits[0].Used)
			}
		}
	})
}

// TestAsk_CachedDeny: who hammers costs no round trips, and goes soon after somebody gave back.
func TestAsk_CachedDeny(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := askers(t, 2, governor.Pool{TenantLimits: governor.LimitsCachedDeny}, governor.Tenant{TPM: 1000})
		l := goes(t, list[0], 1000)
		refused := 0
		for range 2000 {
			if _, rej := one(list[1], "a", 100); rej != nil && rej.RetryAfter > 30*time.Second && rej.Used == 1000 {
				refused++
			}
			time.Sleep(10 * time.Millisecond)
		}
		if asks := list[1].way.asks.Load(); refused != 2000 || asks > 3 {
			t.Errorf("%d of 2000 were refused, with %d round trips", refused, asks)
		}
		l.Settle(governor.Usage{Input: 100})
		began := time.Now()
		for rej := (&governor.Refusal{}); rej != nil && time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
			_, rej = one(list[1], "a", 100)
		}
		if took := time.Since(began); took > 1300*time.Millisecond {
			t.Errorf("it went %v after there was room", took)
		}
	})
}

// TestAsk_Shadow: a shadow's call goes, is told why it would not have, and counts.
func TestAsk_Shadow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := askers(t, 1, strict, governor.Tenant{RPM: 2, Shadow: true})
		for i := range 4 {
			l, rej := one(list[0], "a", 1)
			if rej != nil || (l.Would != nil) != (i >= 2) {
				t.Errorf("call %d: %v, would %v", i, rej, l.Would)
			}
		}
		list[0].way.lost.Store(true)
		if l, rej := one(list[0], "a", 1); rej != nil || l.Would == nil || l.Would.Reason != governor.ReasonStoreLost {
			t.Errorf("without the store: %v, would %v", rej, l.Would)
		}
		if st, _ := list[0].TenantState("a"); st.Limits[0].Used != 5 {
			t.Errorf("it has used %d", st.Limits[0].Used)
		}
		list[0].way.lost.Store(false)
	})
}

// TestAsk_ShadowWaits: a shadow's call that would have gone when it had waited would not have been refused.
func TestAsk_ShadowWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := askers(t, 1, strict, governor.Tenant{Concurrency: 2, MaxWait: time.Minute, Shadow: true})
		for i := range 4 {
			if l, rej := one(list[0], "a", 1); rej != nil || l.Would != nil {
				t.Errorf("call %d: %v, would %v", i, rej, l.Would)
			}
		}
	})
}

// TestAsk_Modes: pools of different modes count against the same limits, and what was counted in
// one mode counts on in another.
func TestAsk_Modes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := askers(t, 2, strict, governor.Tenant{RPM: 30, Budgets: []governor.Budget{{Unit: governor.UnitRequests, Limit: 40, Per: budget.Month}}})
		cfg := askConfig(strict, governor.Tenant{RPM: 30, Budgets: []governor.Budget{{Unit: governor.UnitRequests, Limit: 40, Per: budget.Month}}})
		leased := cfg.Pools[0]
		leased.Name = "q"
		leased.TenantLimits = governor.LimitsLeased
		cfg.Pools = append(cfg.Pools, leased)
		for _, a := range list {
			testkit.OK(t, a.Governor.Apply(cfg))
		}
		went := map[string]int{}
		ask := func(i int, pool string) {
			l, rej := list[i].Acquire(context.Background(), governor.Request{Tenant: "a", Pool: pool, Input: 1})
			if rej == nil {
				went[fmt.Sprint(i, pool)]++
				l.Settle(governor.Usage{Input: 1})
			}
			time.Sleep(100 * time.Millisecond)
		}
		for i := range 200 {
			ask(i%2, []string{"p", "q"}[i/2%2])
		}
		if n := went["0p"] + went["0q"] + went["1p"] + went["1q"]; n != 30 {
			t.Errorf("of 30 a minute there went %v", went)
		}
		cfg.Pools[0].TenantLimits = governor.LimitsLeased
		cfg.Pools[1].TenantLimits = governor.LimitsCachedDeny
		for _, a := range list {
			testkit.OK(t, a.Governor.Apply(cfg))
		}
		time.Sleep(20 * time.Second)
		for i := range 20 {
			ask(i%2, []string{"p", "q"}[i/2%2])
		}
		if n := went["0p"] + went["0q"] + went["1p"] + went["1q"]; n != 30 {
			t.Errorf("after a reload %v", went)
		}
		time.Sleep(40 * time.Second)
		for i := range 200 {
			ask(i%2, []string{"p", "q"}[i/2%2])
		}
		if n := went["0p"] + went["0q"] + went["1p"] + went["1q"]; n != 40 {
			t.Errorf("of a budget of 40 there went %v", went)
		}
	})
}

// TestAsk_Forced: what is booked whatever the limits say is not asked for, and counts for all.
func TestAsk_Forced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := askers(t, 2, strict, governor.Tenant{TPM: 1000})
		for range 2 {
			l, rej := governor.Refused(list[0].Acquire(context.Background(), governor.Request{Tenant: "a", Pool: "p", Input: 450, Forced: true}))
			if rej != nil || l.Waited > 0 || !l.Charge(governor.Usage{Input: 450}) {
				t.Fatalf("waited %v, %v", l.Waited, rej)
			}
		}
		time.Sleep(1500 * time.Millisecond)
		if _, rej := one(list[1], "a", 101); rej == nil || rej.Used != 900 {
			t.Errorf("at another gateway: %+v", rej)
		}
		goes(t, list[1], 100)
		if n := list[0].way.asks.Load(); n > 0 {
			t.Errorf("asked %d times", n)
		}
	})
}

// TestAsk_Leaves: a gateway that ends keeps nothing, and what it used counts on.
func TestAsk_Leaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenant := governor.Tenant{Concurrency: 2, Budgets: []governor.Budget{{Unit: governor.UnitTokens, Limit: 1000, Per: budget.Month}}}
		list := askers(t, 2, strict, tenant)
		goes(t, list[0], 700).Settle(governor.Usage{Input: 600})
		list[0].stop()
		goes(t, list[1], 401) // with what is left
		if _, rej := one(list[1], "a", 1); rej == nil || rej.Used != 1000 {
			t.Errorf("it says %+v", rej)
		}
	})
}

// TestAsk_InVain: a wait ends when it is over, when the caller goes, and does not begin where it is
// known to be too short; the line is empty then.
func TestAsk_InVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := askers(t, 2, strict, governor.Tenant{Concurrency: 1, RPM: 2, MaxWait: 3 * time.Second})
		l, _ := one(list[0], "a", 1)
		_, rej := one(list[1], "a", 1)
		if rej == nil || rej.Reason != governor.ReasonConcurrency || rej.Limit != 1 || rej.Used != 1 || rej.Waited < 3*time.Second || rej.Waited > 3050*time.Millisecond {
			t.Errorf("it says %+v", rej)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, rej = governor.Refused(list[1].Acquire(ctx, governor.Request{Tenant: "a", Pool: "p", Input: 1}))
		if cancel(); rej == nil || rej.Reason != governor.ReasonCancelled || rej.Waited != time.Second {
			t.Errorf("who is gone after a second: %+v", rej)
		}
		l.Settle(governor.Usage{Input: 1})
		time.Sleep(time.Second)
		goes(t, list[1], 1).Settle(governor.Usage{Input: 1})
		_, rej = one(list[1], "a", 1)
		if rej == nil || rej.Reason != governor.ReasonRequests || rej.Waited > 20*time.Millisecond || rej.RetryAfter < 50*time.Second {
			t.Errorf("a minute is too long to wait for: %+v", rej)
		}
		if st, _ := list[1].TenantState("a"); st.InLine != 0 {
			t.Errorf("%d stand in line", st.InLine)
		}
	})
}
