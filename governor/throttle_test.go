package governor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// Of a pool that is cut whole nothing is to be had until then: who does not wait is told
// when, who waits goes when it ends, tenants by turns, whoever had asked more often and
// first. A policy that is applied meanwhile does not end it.
func TestThrottle_All(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{
			Pools:   []Pool{{Name: "p", TPM: 600_000, Burst: 10 * time.Second, MaxQueue: 1000, TicketWait: 10 * time.Second}},
			Tenants: []Tenant{{Name: "many", Weight: 1, MaxWait: time.Minute}, {Name: "few", Weight: 1, MaxWait: time.Minute}, {Name: "none", Weight: 1}},
		}
		g := must(t, cfg)
		time.Sleep(5 * time.Minute)
		until := time.Now().Add(20 * time.Second)
		g.Throttle("p", []Cut{{Part: Whole, Until: until}})
		g.Throttle("nowhere", []Cut{{Part: Whole, Until: until}})

		_, rej := Refused(g.Acquire(t.Context(), demand("none", 100)))
		if rej == nil || rej.Reason != ReasonThrottled || rej.RetryAfter != 20*time.Second {
			t.Fatalf("who does not wait got %+v, want to be told 20 s", rej)
		}
		if s := g.State().Pools[0]; len(s.Cuts) != 1 || !s.Held.Equal(until) {
			t.Errorf("the state shows %v and %v", s.Cuts, s.Held)
		}
		var (
			all   sync.WaitGroup
			mu    sync.Mutex
			order []string
		)
		ask := func(tenant string) {
			all.Go(func() {
				l, rej := Refused(g.Acquire(t.Context(), demand(tenant, 2_000)))
				if rej != nil {
					t.Errorf("%s: %v", tenant, rej)
					return
				}
				if time.Now().Before(until) {
					t.Errorf("%s went %v before the end", tenant, time.Until(until))
				}
				mu.Lock()
				order = append(order, tenant)
				mu.Unlock()
				l.Settle(Usage{Output: 2_000})
			})
		}
		for range 30 {
			ask("many")
		}
		synctest.Wait()
		for range 10 {
			ask("few")
		}
		synctest.Wait()
		time.Sleep(5 * time.Second)
		testkit.OK(t, g.Apply(cfg))
		gone, leave := context.WithCancel(t.Context())
		all.Go(func() {
			if _, rej := Refused(g.Acquire(gone, demand("few", 100))); rej == nil || rej.Reason != ReasonCancelled {
				t.Errorf("who went away got %v", rej)
			}
		})
		synctest.Wait()
		leave()
		all.Wait()
		few := 0
		for _, tenant := range order[:20] {
			if tenant == "few" {
				few++
			}
		}
		if few < 9 {
			t.Errorf("of the first 20 calls %d are of the tenant that asked later, want all its 10: %v", few, order)
		}
		if running, waiting := g.Leases(); running != 0 || waiting != 0 {
			t.Errorf("%d leases and %d calls are left", running, waiting)
		}
	})
}

// Limits and rate are cut as long as is said, each cut for itself, and come back by
// themselves.
func TestThrottle_Parts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools:   []Pool{{Name: "p", TPM: 600_000, RPM: 100, HeadroomPPM: 10_000, MaxQueue: 1000}},
			Tenants: []Tenant{{Name: "a", Weight: 1}},
		})
		now := time.Now()
		g.Throttle("p", []Cut{
			{Part: Whole / 4, Until: now.Add(10 * time.Second)},
			{Part: Whole / 2, Until: now.Add(20 * time.Second)},
			{TPM: 700_000, RPM: 1000, Until: now.Add(30 * time.Second)},
			{TPM: -300_000, Until: now.Add(40 * time.Second)},
		})
		for i, want := range []struct{ part, tpm, rpm int64 }{
			{Whole / 4, 198_000, 1}, {Whole / 2, 198_000, 1}, {Whole, 198_000, 1}, {Whole, 891_000, 99}, {Whole, 594_000, 99},
		} {
			s := g.State().Pools[0]
			got := struct{ part, tpm, rpm int64 }{s.Part, s.Axes[escrow.Tokens].Limit, s.Axes[escrow.Requests].Limit}
			if got != want || !s.Held.IsZero() {
				t.Errorf("after %d s: %+v held until %v, want %+v", 10*i, got, s.Held, want)
			}
			time.Sleep(10 * time.Second)
			synctest.Wait()
		}
		if cuts := g.State().Pools[0].Cuts; len(cuts) != 0 {
			t.Errorf("%v are left", cuts)
		}
	})
}

// Parts that together leave nothing hold the pool until the first of them is back.
func TestThrottle_SumIsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools:   []Pool{{Name: "p", TPM: 600_000, MaxQueue: 1000}},
			Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: time.Minute}},
		})
		now := time.Now()
		g.Throttle("p", []Cut{{Part: 750_000, Until: now.Add(30 * time.Second)}, {Part: 250_000, Until: now.Add(7 * time.Second)}})
		l, rej := Refused(g.Acquire(t.Context(), demand("a", 100)))
		if rej != nil || time.Since(now) != 7*time.Second {
			t.Fatalf("admitted after %v (%v), want 7 s", time.Since(now), rej)
		}
		l.Settle(Usage{Output: 1})
		if s := g.State().Pools[0]; s.Part != Whole/4 {
			t.Errorf("a part of %d is handed out, want a quarter", s.Part)
		}
	})
}

var errEnough = errors.New("enough")

// stream is a call of so many seconds, which ends when it is over or interrupted. It tells
// how often its lease has ended, and why it was cut.
func stream(t *testing.T, g *Governor, pool string, d time.Duration, interruptible bool) (ends int, cause error) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	req := Request{Tenant: "a", Pool: pool, Input: 10, Output: 10}
	if interruptible {
		req.Interrupt = InterruptFunc(cancel)
	}
	l, rej := Refused(g.Acquire(ctx, req))
	if rej != nil {
		t.Error(rej)
		return 0, nil
	}
	end := time.NewTimer(d)
	defer end.Stop()
	count := func(ended bool) {
		if ended {
			ends++
		}
	}
	select {
	case <-end.C:
		count(l.Settle(Usage{Input: 10, Output: 10}))
	case <-ctx.Done():
		count(l.Break(Usage{Input: 10, Output: 1}))
	}
	count(l.Settle(Usage{Input: 10, Output: 10}))
	return ends, context.Cause(ctx)
}

func interruptGovernor(t *testing.T) *Governor {
	return must(t, Config{
		Pools: []Pool{
			{Name: "p", Concurrency: 200, TPM: 1e6, Burst: time.Minute, MaxQueue: 100},
			{Name: "other", Concurrency: 200, MaxQueue: 100},
			{Name: "full", Concurrency: 1, MaxQueue: 100},
		},
		Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: time.Hour}},
	})
}

// TestInterrupt: calls that run in a pool, and have said how, are ended, each once and for the
// cause that was given, also those that end by themselves in the same instant; no others are.
func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := interruptGovernor(t)
		var all sync.WaitGroup
		var ended, cut, whole atomic.Int64
		begin := func(n int, pool string, d time.Duration, interruptible bool) {
			for range n {
				all.Go(func() {
					ends, cause := stream(t, g, pool, d, interruptible)
					ended.Add(int64(ends))
					switch cause {
					case errEnough:
						cut.Add(1)
					case nil:
						whole.Add(1)
					default:
						t.Errorf("it was cut by %v", cause)
					}
				})
			}
			synctest.Wait()
		}
		begin(99, "p", time.Minute, true)
		begin(100, "p", 10*time.Second, true) // which end as they are interrupted
		begin(1, "p", time.Minute, false)
		begin(5, "other", time.Minute, true)
		begin(1, "full", time.Minute, false)
		begin(7, "full", time.Second, true) // which wait
		time.Sleep(10 * time.Second)
		asked := g.Interrupt("p", errEnough)
		if asked < 99 || asked > 199 {
			t.Errorf("%d calls were asked to end", asked)
		}
		synctest.Wait()
		if n := len(g.interruptible("p")); n > 0 {
			t.Errorf("%d calls run on", n)
		}
		if n := g.Interrupt("full", errEnough); n != 0 {
			t.Errorf("%d calls that wait were asked to end", n)
		}
		if n := g.Interrupt("nowhere", errEnough); n != 0 {
			t.Errorf("%d calls in a pool that is not there", n)
		}
		all.Wait()
		if ended.Load() != 213 || cut.Load() < 99 || cut.Load()+whole.Load() != 213 {
			t.Errorf("of 213 leases %d were ended; %d calls were cut, and %d came to their end", ended.Load(), cut.Load(), whole.Load())
		}
		for _, p := range g.State().Pools {
			if p.Running != 0 || p.Waiting != 0 {
				t.Errorf("in %s %d calls run and %d wait", p.Config.Name, p.Running, p.Waiting)
			}
		}
		if n := g.Interrupt("p", nil); n != 0 {
			t.Errorf("%d calls were asked that have ended", n)
		}
	})
}

// TestInterrupt_Gone: calls can also be ended in a pool that is in no configuration any more.
func TestInterrupt_Gone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := interruptGovernor(t)
		var one sync.WaitGroup
		one.Go(func() {
			if ends, cause := stream(t, g, "other", time.Minute, true); ends != 1 || cause != context.Canceled {
				t.Errorf("its lease ended %d times, by %v", ends, cause)
			}
		})
		synctest.Wait()
		testkit.OK(t, g.Apply(Config{
			Pools:   []Pool{{Name: "p", Concurrency: 200, TPM: 1e6, Burst: time.Minute, MaxQueue: 100}},
			Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: time.Hour}},
		}))
		if n := g.Interrupt("other", nil); n != 1 {
			t.Errorf("%d calls were asked to end", n)
		}
		one.Wait()
	})
}

// Calls wait for more of a limit while some are in line, or will be back when they were told to, but not while nothing is handed out.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools:   []Pool{{Name: "p", TPM: 60_000, Burst: time.Second, MaxQueue: 10, TicketWait: 10 * time.Second}},
			Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: time.Minute}, {Name: "none", Weight: 1}},
		})
		want := func(what string, waits bool) {
			t.Helper()
			if g.Waits("p") != waits {
				t.Errorf("%s: they wait is %v", what, !waits)
			}
		}
		want("at first", false)
		admitted(t, g, demand("a", 3000))
		_, rej := Refused(g.Acquire(t.Context(), demand("none", 1000)))
		want("one is told to come back", true)
		time.Sleep(rej.RetryAfter + 2*time.Second)
		want("it has not come", false)
		admitted(t, g, demand("a", 5000))
		go func() { _, _ = g.Acquire(t.Context(), demand("a", 1000)) }()
		synctest.Wait()
		want("one is in line", true)
		g.Throttle("p", []Cut{{Part: Whole, Until: time.Now().Add(20 * time.Second)}})
		want("nothing is handed out", false)
		time.Sleep(time.Minute)
		want("it went", false)
	})
}
