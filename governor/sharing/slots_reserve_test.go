package sharing

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/governor"
)

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
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, err := governor.New(governor.Config{
					Shared:      true,
					SharedSlots: true,
					Pools: []governor.Pool{{
						Name: "p", Concurrency: c.slots, InteractiveReserve: c.reserve, MaxQueue: 9,
						OnLoss: governor.LossLocal, LocalPPM: c.localPPM,
					}},
					Tenants: []governor.Tenant{{Name: "batch", Weight: 1000, Background: true, MaxWait: time.Hour}},
				})
				if err != nil {
					t.Fatal(err)
				}
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
		})
	}
}
