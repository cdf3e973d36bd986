package sharing

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/testkit"
)

// TestSharedSlots_Stakes: a claim tells the weights of tenants that have all they want if the slots here are
// shared by weight, and of those who do not.
func TestSharedSlots_Stakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := testkit.Must(governor.New(governor.Config{
			Shared:      true,
			SharedSlots: true,
			Pools:       []governor.Pool{{Name: "p", Concurrency: 8, MaxQueue: 100}},
			Tenants: []governor.Tenant{
				{Name: "calm", Weight: 1000, MaxWait: time.Hour},
				{Name: "busy", Weight: 1000, MaxWait: time.Hour},
				{Name: "large", Weight: 2000, MaxWait: time.Hour},
			},
		}))(t)
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

// TestSharedSlots_WithheldReserve: background calls keep a share of the slots although no more are handed out
// than are reserved, because some are withheld for gateways that are cut off. Before, they had none for good.
func TestSharedSlots_WithheldReserve(t *testing.T) {
	for _, c := range []struct {
		what                         string
		slots, reserve, localPPM     int64
		together, forBackground, run int64
	}{
		{"reserve below what is handed out", 20, 4, 100_000, 18, 14, 1},
		{"reserve as large as what is handed out", 20, 10, 500_000, 10, 5, 1},
		{"reserve larger", 20, 18, 500_000, 10, 5, 1},
		{"one slot is handed out", 2, 1, 500_000, 1, 1, 1},
	} {
		testkit.Virtual(t, c.what, func(t *testing.T) {
			g := testkit.Must(governor.New(governor.Config{
				Shared:      true,
				SharedSlots: true,
				Pools: []governor.Pool{{
					Name: "p", Concurrency: c.slots, InteractiveReserve: c.reserve, MaxQueue: 9,
					OnLoss: governor.LossLocal, LocalPPM: c.localPPM,
				}},
				Tenants: []governor.Tenant{{Name: "batch", Weight: 1000, Background: true, MaxWait: time.Hour}},
			}))(t)
			admitted := make(chan governor.Lease, 1)
			go func() {
				lease, _ := g.Acquire(t.Context(), governor.Request{Tenant: "batch", Pool: "p", Model: "m"})
				admitted <- lease
			}()
			synctest.Wait()
			shared := New(g).Limits()[0]
			claims, _ := shared.Claims(time.Now())
			all := claims[0]
			background := claims[1]
			if all.Limit != c.together || background.Limit != c.forBackground || background.Need != c.run {
				t.Fatalf("claims %+v, and of them for background calls %+v", all, background)
			}
			shared.Apply(time.Now(), time.Now().Add(time.Hour), []parts.Part{{Part: all.Want}, {Part: background.Want}})
			(<-admitted).Settle(governor.Usage{Output: 1})
		})
	}
}
