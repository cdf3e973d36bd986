package governor

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// TestKeptOut: of a pool that has room for four calls, and by a rule only for two of these, the state says how many of the others wait for
// that rule, and which it is. They are no part of what their tenant is entitled to.
func TestKeptOut(t *testing.T) {
	for name, c := range map[string]struct {
		pool Pool
		by   escrow.Rule
	}{
		"interactive_reserve": {Pool{InteractiveReserve: 2}, escrow.ByReserve},
		"soft_cap":            {Pool{SoftCapPPM: 500_000}, escrow.BySoftCap},
		"hold_back":           {Pool{HoldBackPPM: 500_000}, escrow.ByHoldBack},
		"none":                {Pool{}, escrow.NoRule},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.pool.Name = "p"
				c.pool.Concurrency = 4
				c.pool.MaxQueue = 10
				g := must(t, Config{Pools: []Pool{c.pool}, Tenants: []Tenant{{Name: "night", Weight: 1000, MaxWait: time.Hour, Background: true}}})
				ctx, stop := context.WithCancel(t.Context())
				var calls sync.WaitGroup
				defer calls.Wait()
				defer stop()
				for range 7 {
					calls.Go(func() {
						l, rej := g.Acquire(ctx, Request{Tenant: "night", Pool: "p", Model: "m"})
						if rej == nil {
							<-ctx.Done()
							l.Settle(Usage{Output: 1})
						}
					})
				}
				time.Sleep(3 * time.Minute)
				shares := g.State().Pools[0].Shares
				s := shares[slices.IndexFunc(shares, func(s TenantShare) bool { return s.Tenant == "night" })]
				want := TenantShare{Queued: 5, Running: 2, KeptOut: 5}
				if c.by == escrow.NoRule {
					want = TenantShare{Queued: 3, Running: 4}
				}
				if s.Queued != want.Queued || s.Running != want.Running || s.KeptOut != want.KeptOut || s.KeptOutBy != c.by {
					t.Errorf("%d run, %d wait, %d of them for rule %d; want %+v for rule %d", s.Running, s.Queued, s.KeptOut, s.KeptOutBy, want, c.by)
				}
				if s.Demand != s.Received && c.by != escrow.NoRule {
					t.Errorf("they are demand: it asks for %.4f of the pool, and received %.4f", s.Demand, s.Received)
				}
			})
		})
	}
}
