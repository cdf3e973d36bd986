package governor

import (
	"context"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/lengths"
	"github.com/llmgov/llmgov/governor/refusal"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// No count from outside can overflow a book.
func TestAbsurdCountsAreBounded(t *testing.T) {
	g := must(t, Config{Pools: []Pool{{Name: "p", TPM: 60_000, MaxQueue: 10}}, Tenants: []Tenant{{Name: "a", Weight: 1, TPM: 1000}}})
	admitted := 0
	for range 100 {
		if _, rej := g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", Input: 10, Output: math.MaxInt64}); rej == nil {
			admitted++
		}
	}
	if own, pool := used(g, 0); admitted > 1 || own < 0 || pool < 0 {
		t.Errorf("%d of 100 were admitted; the tenant counts %d, the pool %d", admitted, own, pool)
	}
	if _, err := New(Config{Pools: []Pool{{Name: "p", TPM: math.MaxInt64 / 2, HeadroomPPM: 10_000}}}); err == nil {
		t.Error("a limit that overflows is taken")
	}
}

// Whatever kind its tokens turn out to be, a call within its bounds takes no more
// than it held.
func TestWeightsHoldTheMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools:   []Pool{{Name: "p", TPM: 60_000, Burst: time.Minute, Weights: TokenWeights{Input: 1, CachedInput: 1, Output: 1, Reasoning: 4, Audio: 1}}},
			Tenants: []Tenant{{Name: "a", Weight: 1}},
		})
		time.Sleep(3 * time.Minute)
		var leases []Lease
		for {
			l, rej := g.Acquire(t.Context(), demand("a", 5000))
			if rej != nil {
				break
			}
			leases = append(leases, l)
		}
		for _, l := range leases {
			l.Settle(Usage{Output: 5000, Reasoning: 5000})
		}
		if _, pool := used(g, 0); pool > 60_000 || len(leases) == 0 {
			t.Errorf("%d calls within their bounds count %d of 60000", len(leases), pool)
		}
	})
}

// A call in the tenant's line learns when a hold before it becomes a booking, which
// leaves at a known time, and does not wait for that call's end.
func TestLineWakesWhenAHoldIsBooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools: []Pool{{Name: "p", Concurrency: 1, MaxQueue: 10}, {Name: "q", Concurrency: 9, MaxQueue: 10}},
			Tenants: []Tenant{
				{Name: "a", Weight: 1, RPM: 1, MaxWait: 10 * time.Minute},
				{Name: "b", Weight: 1},
			},
		})
		other, _ := g.Acquire(t.Context(), demand("b", 1))
		var wg sync.WaitGroup
		wg.Go(func() { // waits for the pool, with its own limit held
			l, rej := Refused(g.Acquire(t.Context(), demand("a", 1)))
			if rej != nil {
				t.Error(rej)
			}
			time.Sleep(8 * time.Minute)
			l.Settle(Usage{Output: 1})
		})
		synctest.Wait()
		wg.Go(func() {
			time.Sleep(2 * time.Second)
			other.Settle(Usage{})
		})
		start := time.Now()
		l, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "a", Pool: "q", Output: 1}))
		if waited := time.Since(start); rej != nil || waited > 63*time.Second {
			t.Errorf("served after %v (%v), want a minute after the hold was booked", waited, rej)
		}
		l.Settle(Usage{})
		wg.Wait()
	})
}

// slowClock moves on a little at each look.
type slowClock struct {
	SystemClock
	mu         sync.Mutex
	skew, step time.Duration
}

func (c *slowClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skew += c.step
	return time.Now().Add(c.skew)
}

// Time that passes between a look and the next does not put the line to sleep.
func TestLineIsNotOvertakenByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &slowClock{}
		g := must(t, Config{Clock: clock, Pools: []Pool{{Name: "p", MaxQueue: 10}}, Tenants: []Tenant{{Name: "a", Weight: 1, RPM: 2, MaxWait: 10 * time.Minute}}})
		g.Acquire(t.Context(), demand("a", 1))
		second, _ := g.Acquire(t.Context(), demand("a", 1))
		start := time.Now()
		done := make(chan time.Duration)
		go func() {
			l, _ := g.Acquire(t.Context(), demand("a", 1))
			done <- time.Since(start)
			l.Settle(Usage{})
		}()
		synctest.Wait()
		// Room comes at 60.5 s. Something wakes the line just before.
		time.Sleep(60*time.Second + 500*time.Millisecond - 3500*time.Microsecond)
		clock.mu.Lock()
		clock.step = time.Millisecond
		clock.mu.Unlock()
		second.Settle(Usage{Output: 1})
		synctest.Wait()
		clock.mu.Lock()
		clock.step = 0
		clock.mu.Unlock()
		if served := <-done; served > 61*time.Second {
			t.Errorf("served after %v, due after 60.5s", served)
		}
	})
}

// Who is ready to wait exactly until its turn is served.
func TestTurnAtTheDeadline(t *testing.T) {
	for range 30 {
		synctest.Test(t, func(t *testing.T) {
			g := must(t, Config{Pools: []Pool{{Name: "p", TPM: 60_000, MaxQueue: 10}}, Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: time.Hour}, {Name: "b", Weight: 0.001}}})
			time.Sleep(5 * time.Minute)
			l, _ := g.Acquire(t.Context(), demand("a", 1000))
			l.Settle(Usage{Output: 1000})
			req := demand("a", 500)
			none := time.Duration(0)
			req.MaxWait = &none
			_, rej := Refused(g.Acquire(t.Context(), req))
			if rej == nil {
				t.Fatal("the pool should have nothing left")
			}
			wait := rej.RetryAfter
			req.MaxWait = &wait
			if _, rej := Refused(g.Acquire(t.Context(), req)); rej != nil {
				t.Errorf("refused at the instant of its turn: %v", rej)
			}
		})
	}
}

// A refusal names a limit that there is, and a drain a time that makes sense.
func TestReasonsArePossible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{Pools: []Pool{{Name: "p", MaxQueue: 10, Concurrency: 9}}, Tenants: []Tenant{{Name: "a", Weight: 1, TPM: 1000, MaxWait: 10 * time.Minute}}})
		l, _ := g.Acquire(t.Context(), demand("a", 1000))
		var wg sync.WaitGroup
		wg.Go(func() {
			l, _ := g.Acquire(t.Context(), demand("a", 500))
			l.Settle(Usage{Output: 500})
		})
		synctest.Wait()
		none := time.Duration(0)
		l.Settle(Usage{Output: 10}) // wakes the line, which has not yet run
		if _, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", Output: 5, MaxWait: &none})); rej != nil && rej.Limit == 0 {
			t.Errorf("refused for a limit that there is not: %v", rej)
		}
		wg.Wait()

		held, _ := g.Acquire(t.Context(), demand("a", 490))
		wg.Go(func() {
			_, rej := Refused(g.Acquire(t.Context(), demand("a", 900)))
			if rej == nil || rej.Reason != ReasonDraining || rej.RetryAfter != refusal.DrainRetry {
				t.Errorf("a drain told a waiting call %+v", rej)
			}
		})
		synctest.Wait()
		g.Drain()
		wg.Wait()
		held.Settle(Usage{})
	})
}

// Calls that take little of what they hold do not make the tenant's next ones be
// refused for a whole minute.
func TestOwnPredictionKnowsRefunds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{Pools: []Pool{{Name: "p", Concurrency: 1000, MaxQueue: 100}}, Tenants: []Tenant{{Name: "a", Weight: 1, TPM: 60_000, MaxWait: 10 * time.Second}}})
		for range 3 {
			var leases []Lease
			for range 13 {
				l := admitted(t, g, demand("a", 4096))
				leases = append(leases, l)
			}
			time.Sleep(time.Second)
			for _, l := range leases {
				l.Settle(Usage{Output: 100})
			}
		}
		testkit.AtOnce(20, func(_ int) {
			l, rej := Refused(g.Acquire(t.Context(), demand("a", 4096)))
			if rej != nil {
				t.Errorf("ready to wait 10 s for calls of one: %v", rej)
				return
			}
			time.Sleep(time.Second)
			l.Settle(Usage{Output: 100})
		})
	})
}

// A call that is dispatched in the very instant in which its caller goes leaves
// nothing behind. The instant is made by hand: the caller goes while the lock
// is held, and the dispatch happens under that lock.
func TestDispatchedToOneWhoHasGone(t *testing.T) {
	g := must(t, Config{Pools: []Pool{{Name: "p", Concurrency: 1, MaxQueue: 10}}, Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: time.Hour}}})
	p := g.table.pools["p"]
	for range 20 {
		first, _ := g.Acquire(t.Context(), demand("a", 1))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if l, rej := g.Acquire(ctx, demand("a", 1)); rej == nil {
				l.Settle(Usage{})
			}
		})
		for waiting := 0; waiting == 0; _, waiting = g.Leases() {
			runtime.Gosched()
		}
		now := g.lock()
		cancel()
		for range 2000 { // the caller sees that, and comes to the lock
			runtime.Gosched()
		}
		if _, ok := p.end(now, first.handle, taking{cost: escrow.Cost{0, 1}, whole: true}); !ok {
			t.Fatal("the first lease has ended before")
		}
		g.pump(p.pool, now)
		g.unlock()
		wg.Wait()
		if running, waiting := g.Leases(); running != 0 || waiting != 0 {
			t.Fatalf("%d run and %d wait", running, waiting)
		}
		if outputs, runs := p.outputs.Stats().Running, p.runs.Stats().Running; outputs != 0 || runs != 0 {
			t.Fatalf("nothing runs, yet %d and %d calls count as running in what is learned", outputs, runs)
		}
	}
}

// The line and the pool's queue are waited for up to max_wait in all.
func TestMaxWaitIsForBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools:   []Pool{{Name: "p", Concurrency: 1, MaxQueue: 10}, {Name: "q", Concurrency: 9, MaxQueue: 10}},
			Tenants: []Tenant{{Name: "a", Weight: 1, Concurrency: 1, MaxWait: 5 * time.Second}, {Name: "b", Weight: 1}},
		})
		own, _ := g.Acquire(t.Context(), Request{Tenant: "a", Pool: "q", Output: 1})
		slot, _ := g.Acquire(t.Context(), demand("b", 1))
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(3 * time.Second)
			own.Settle(Usage{})
		})
		start := time.Now()
		_, rej := Refused(g.Acquire(t.Context(), demand("a", 1)))
		if waited := time.Since(start); rej == nil || waited != 5*time.Second || rej.Waited != waited {
			t.Errorf("refused after %v, and told %v", waited, rej.Waited)
		}
		slot.Settle(Usage{})
		wg.Wait()
	})
}

// When the head of the queue goes, what it blocked goes on.
func TestACancelledHeadUnblocksTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{Pools: []Pool{{Name: "p", TPM: 60_000, MaxQueue: 10, Burst: 10 * time.Second}}, Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: time.Hour}, {Name: "b", Weight: 1, MaxWait: time.Hour}}})
		time.Sleep(time.Minute)
		l, _ := g.Acquire(t.Context(), demand("a", 9000))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { g.Acquire(ctx, demand("b", 60_000)) })
		synctest.Wait()
		start := time.Now()
		wg.Go(func() {
			small, rej := Refused(g.Acquire(t.Context(), demand("a", 500)))
			if rej != nil || time.Since(start) > 2*time.Second {
				t.Errorf("served after %v (%v)", time.Since(start), rej)
			}
			small.Settle(Usage{})
		})
		time.Sleep(time.Second)
		cancel()
		wg.Wait()
		l.Settle(Usage{})
	})
}

// What the policy says reaches the books.
func TestConfigReachesTheBooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools:   []Pool{{Name: "p", TPM: 60_000, HeadroomPPM: 10_000, Accounting: 1, Burst: time.Second}, {Name: "q", TPM: 60_000, Burst: time.Second}},
			Tenants: []Tenant{{Name: "a", Weight: 1}, {Name: "b", Weight: 1, Pools: []string{"q"}}},
		})
		if limit := g.State().Pools[0].Axes[0].Limit; limit != 59_400 {
			t.Errorf("the limit less its headroom is %d, want 59400", limit)
		}
		time.Sleep(5 * time.Minute)
		for pool, want := range map[string]bool{"p": true, "q": false} { // alone in p
			l, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "a", Pool: pool, Output: 30_000}))
			_, more := Refused(g.Acquire(t.Context(), Request{Tenant: "a", Pool: pool, Output: 20_000}))
			if rej != nil || (more == nil) != want {
				t.Errorf("pool %s: half its minute at once: %v, and a third more: %v", pool, rej, more)
			}
			if pool == "p" { // counts production: the prompt at once, the rest as it comes
				l.Progress(1000)
				l.Settle(Usage{Output: 1000})
			}
		}
	})
}

// Under production, what a running call has produced is booked as it comes.
func TestProgressBooksProduction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{Pools: []Pool{{Name: "p", TPM: 60_000, Accounting: 1, Burst: time.Minute, MaxQueue: 10}}, Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: time.Hour}}})
		time.Sleep(5 * time.Minute)
		l, _ := g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", Input: 10_000, Output: 50_000})
		time.Sleep(30 * time.Second)
		l.Progress(50_000)
		time.Sleep(31 * time.Second) // the prompt has left the minute, the answer has not
		if _, pool := used(g, 0); pool < 49_900 || pool > 50_000 {
			t.Errorf("%d tokens count, want the 50000 produced half a minute ago, less the first of them", pool)
		}
		time.Sleep(30 * time.Second) // a running call, all of whose tokens have left it
		if _, pool := used(g, 0); pool != 0 {
			t.Errorf("%d tokens count, want none", pool)
		}
		l.Settle(Usage{Input: 10_000, Output: 50_000})
	})
}

// What is booked when it is done already says nothing of how long calls get, or run: it
// was no call of its own.
//
// Catches: debts of batches and background responses, and parts of sessions, that are
// learned as calls which broke off at once.
func TestForcedCallsTeachNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools:   []Pool{{Name: "p", TPM: 10_000_000, Concurrency: 2, MaxQueue: 10}},
			Tenants: []Tenant{{Name: "a", Weight: 1}},
		})
		req := Request{Tenant: "a", Pool: "p", Model: "m", Input: 10, Output: 64}
		for range 60 {
			l := admitted(t, g, req)
			time.Sleep(time.Second)
			l.Settle(Usage{Input: 10, Output: 20})
		}
		for range 2 { // both slots
			admitted(t, g, req)
		}
		expect := func() (output int64, run, wait time.Duration) {
			o, _ := g.Explain(req)
			return g.pools["p"].outputs.ExpectOf(lengths.Kind{Tenant: "a", Model: "m"}, req.Output), o.Run, o.Refused.RetryAfter
		}
		output, run, wait := expect()
		for range 300 {
			done := req
			done.Forced = true
			l := admitted(t, g, done)
			l.Charge(Usage{Input: 10, Output: 60})
		}
		if o, r, w := expect(); o != output || r != run || w != wait || w < 100*time.Millisecond {
			t.Errorf("calls are expected to take %d, run for %v and wait for %v, and before for %d, %v and %v", o, r, w, output, run, wait)
		}
	})
}

// A count that cannot be does not turn the pool's speed round.
func TestSpeedStaysPositive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, output := range []int64{1, 1e9, 1e10, 3e10, 1e11, 1e12, 1 << 62} {
			g := must(t, Config{Pools: []Pool{{Name: "p", TPM: 10_000_000}}, Tenants: []Tenant{{Name: "a", Weight: 1}}})
			l := admitted(t, g, Request{Tenant: "a", Pool: "p"})
			time.Sleep(time.Second)
			l.Settle(Usage{Output: output})
			if speed := g.pools["p"].speed; speed <= 0 || output > 1000 && speed <= firstSpeed {
				t.Errorf("after %d tokens in a second the speed is %d", output, speed)
			}
		}
	})
}
