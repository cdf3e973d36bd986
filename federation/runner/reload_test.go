package runner_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/federation/memory"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/testkit"
)

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
					Tenants: []governor.Tenant{{Name: "a", Weight: escrow.WeightOne, MaxWait: time.Second}},
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
