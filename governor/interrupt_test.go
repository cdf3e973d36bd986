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
	"github.com/llmgov/llmgov/internal/testkit"
)

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
	l, rej := Rejected(g.Acquire(ctx, req))
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
		Tenants: []Tenant{{Name: "a", Weight: escrow.WeightOne, MaxWait: time.Hour}},
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
		if n := len(g.table.Load().pools["p"].interruptible()); n > 0 {
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
			Tenants: []Tenant{{Name: "a", Weight: escrow.WeightOne, MaxWait: time.Hour}},
		}))
		if n := g.Interrupt("other", nil); n != 1 {
			t.Errorf("%d calls were asked to end", n)
		}
		one.Wait()
	})
}
