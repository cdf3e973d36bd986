package sharing

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/governor"
)

// TestSharedSlots_Stakes: a claim tells the weights of tenants that have all they want if the slots here are
// shared by weight, and of those who do not.
func TestSharedSlots_Stakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := governor.New(governor.Config{
			Shared:      true,
			SharedSlots: true,
			Pools:       []governor.Pool{{Name: "p", Concurrency: 8, MaxQueue: 100}},
			Tenants: []governor.Tenant{
				{Name: "calm", Weight: 1000, MaxWait: time.Hour},
				{Name: "busy", Weight: 1000, MaxWait: time.Hour},
				{Name: "large", Weight: 2000, MaxWait: time.Hour},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		begin := func(tenant string, n int) {
			for range n {
				calls.Go(func() {
					lease, rej := g.Acquire(ctx, governor.Request{Tenant: tenant, Pool: "p", Model: "m"})
					if rej != nil {
						return
					}
					<-ctx.Done()
					lease.Settle(governor.Usage{Output: 1})
				})
			}
			synctest.Wait()
		}
		begin("calm", 1)
		shared := New(g).Limits()
		if len(shared) != 1 {
			t.Fatalf("%d pools share slots", len(shared))
		}
		shared[0].Claims(time.Now())
		shared[0].Apply(time.Now(), time.Now().Add(time.Hour), []parts.Part{{Part: 8}})
		begin("busy", 6)
		begin("large", 8)
		claims, _ := shared[0].Claims(time.Now())
		got := claims[0]
		if got.Used != 8 || got.Calm != 1000 || got.CalmUse != 1 || got.Weight != 3000 {
			t.Errorf("of the slots used a calm weight of 1000 has 1, and a weight of 3000 wants more: %+v", got)
		}
		stop()
		calls.Wait()
	})
}
