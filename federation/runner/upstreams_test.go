package runner_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/federation/memory"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/sharing"
	"github.com/llmgov/llmgov/internal/testkit"
)

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
			{Name: "a", Weight: 3 * escrow.WeightOne, MaxWait: time.Hour},
			{Name: "b", Weight: escrow.WeightOne, MaxWait: time.Hour},
		},
	}))(b.t)
	side := sharing.New(g)
	pools := runner.New(runner.Config{Name: name, Region: "r", Instance: name, Store: b.store, Pools: side.Pools})
	limits := runner.NewLimits(runner.LimitsConfig{Instance: rand.Text(), Store: b.store, More: side.More(), Limits: side.Limits, Calls: side.Calls})
	go func() { _ = pools.Run(ctx) }()
	go func() { _ = limits.Run(ctx) }()
	<-pools.First()
	return g
}

// call makes calls of a tenant, one after the other, until the context ends.
func (b *branches) call(ctx context.Context, g *governor.Governor, tenant string) {
	for ctx.Err() == nil {
		lease, rej := governor.Rejected(g.Acquire(ctx, governor.Request{Tenant: tenant, Pool: "p", Input: 500, Output: 200}))
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
