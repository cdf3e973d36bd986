package governor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/escrow/budget"
)

// What is told of one tenant is what the state of all tells of it, while calls run, wait and have ended.
func TestTenantState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		perDay := []Budget{{Unit: UnitTokens, Limit: 1000, Per: budget.Day}}
		g, err := New(Config{
			Pools: []Pool{
				{Name: "p", TPM: 6000, Concurrency: 2, Burst: time.Minute, MaxQueue: 10, Budgets: perDay},
				{Name: "q", RPM: 10, MaxQueue: 10},
			},
			Tenants: []Tenant{
				{Name: "a", Weight: 1000, RPM: 5, Concurrency: 9, Budgets: perDay, MaxWait: time.Minute},
				{Name: "b", Weight: 1000, Pools: []string{"p"}, MaxWait: time.Minute},
				{Name: "idle", Weight: 1000, TPM: 7},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		lease, rej := g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", Input: 10, Output: 20})
		if rej != nil {
			t.Fatal(rej)
		}
		lease.Settle(Usage{Input: 10, Output: 5})
		ctx, cancel := context.WithCancel(t.Context())
		for _, name := range []string{"a", "b", "a"} { // two run, one waits for a slot
			go func() {
				if lease, rej := g.Acquire(ctx, Request{Tenant: name, Pool: "p", Input: 1, Output: 2}); rej == nil {
					<-ctx.Done()
					lease.Settle(Usage{Input: 1, Output: 2})
				}
			}()
		}
		synctest.Wait()
		queued := 0
		for _, want := range g.State().Tenants {
			got, ok := g.TenantState(want.Config.Name)
			if diff := cmp.Diff(want, got); !ok || diff != "" {
				t.Errorf("%s: (-of all +of one)\n%s", want.Config.Name, diff)
			}
			queued += got.Queued["p"]
		}
		if queued != 1 {
			t.Errorf("%d calls wait, want 1: the test sees too little", queued)
		}
		if _, ok := g.TenantState("nobody"); ok {
			t.Error("there is a state of nobody")
		}
		cancel()
		synctest.Wait()
	})
}
