package runner_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/federation/memory"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/testkit"
)

// TestUsage_IsOfAllGateways: refusals, rate headers, explanations and the state tell what all
// gateways have used of a pool's minute, as of the last beat, plus what this one has used since.
func TestUsage_IsOfAllGateways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 60_000
		cfg := governor.Config{
			Shared: true, SharedSlots: true,
			Pools:   []governor.Pool{{Name: "p", TPM: limit, RPM: 1000, Burst: 50 * time.Second, MaxQueue: 100}},
			Tenants: []governor.Tenant{{Name: "a", Weight: escrow.WeightOne, MaxWait: 5 * time.Second}, {Name: "b", Weight: escrow.WeightOne}},
		}
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		store := memory.New(memory.Config{Fresh: true})
		var gateways []*berth
		for range 2 {
			gateways = append(gateways, begin(ctx, t, &group, store, cfg))
		}
		time.Sleep(30 * time.Second) // an idle pool saves up its burst
		used := int64(0)
		calls := int64(0)
		for began := time.Now(); time.Since(began) < 35*time.Second; { // until a refusal tells of it, and before any of it leaves the minute
			for _, b := range gateways {
				l, rej := governor.Rejected(b.Acquire(t.Context(), governor.Request{Tenant: "a", Pool: "p", Output: 3000}))
				if rej == nil {
					used += 3000
					calls++
					l.Settle(governor.Usage{Output: 3000})
				}
			}
			time.Sleep(2 * time.Second)
		}
		time.Sleep(time.Second) // with the last two, each has told, and heard of the other
		for i, b := range gateways {
			if got := b.State().Pools[0].Axes[escrow.Tokens].Used; got != used {
				t.Errorf("gateway %d: of the pool's tokens %d are used by its state, want %d", i, got, used)
			}
			if here := b.State().Pools[0].UsedHere[escrow.Tokens]; here <= 0 || here >= used {
				t.Errorf("gateway %d: %d of %d tokens are its own", i, here, used)
			}
			if got := b.Standing("b", "p").Tokens; got.Remaining != limit-used || got.Reset < 55*time.Second {
				t.Errorf("gateway %d: %d tokens remain by the headers, want %d; reset after %v", i, got.Remaining, limit-used, got.Reset)
			}
			if got := b.Standing("b", "p").Requests; got.Remaining != 1000-calls {
				t.Errorf("gateway %d: %d requests remain by the headers, want %d", i, got.Remaining, 1000-calls)
			}
			o, _ := b.Explain(governor.Request{Tenant: "b", Pool: "p", Output: 30_000})
			for _, c := range o.Checks {
				if c.Axis == "tokens" && c.Tenant == "" && c.Used != used {
					t.Errorf("gateway %d: %d are used by its explanation, want %d", i, c.Used, used)
				}
			}
			_, rej := governor.Rejected(b.Acquire(t.Context(), governor.Request{Tenant: "b", Pool: "p", Output: 60_000}))
			if rej == nil || rej.Used != used || !strings.Contains(rej.Error(), "Limit 60000") {
				t.Errorf("gateway %d: a refusal says %v, want %d used", i, rej, used)
			}
		}
		l, rej := governor.Rejected(gateways[0].Acquire(t.Context(), governor.Request{Tenant: "b", Pool: "p", Output: 100}))
		if rej != nil {
			t.Fatal(rej)
		}
		if got := gateways[0].State().Pools[0].Axes[escrow.Tokens].Used; got != used+100 {
			t.Errorf("with a call since the last beat %d are used, want %d", got, used+100)
		}
		l.Release()
		for _, b := range gateways { // nobody tells any more
			b.way.cut.Store(true)
		}
		time.Sleep(61 * time.Second)
		for i, b := range gateways {
			if got := b.State().Pools[0].Axes[escrow.Tokens].Used; got != 0 {
				t.Errorf("gateway %d: a minute later %d are used", i, got)
			}
		}
		stop()
		group.Wait()
	})
}

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
