package governor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/internal/testkit"
)

// What is told of one tenant is what the state of all tells of it, while calls run, wait and have ended.
func TestTenantState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		perDay := []Budget{{Unit: UnitTokens, Limit: 1000, Per: budget.Day}}
		g := testkit.Must(New(Config{
			Pools: []Pool{
				{Name: "p", TPM: 6000, Concurrency: 2, Burst: time.Minute, MaxQueue: 10, Budgets: perDay},
				{Name: "q", RPM: 10, MaxQueue: 10},
			},
			Tenants: []Tenant{
				{Name: "a", Weight: 1000, RPM: 5, Concurrency: 9, Budgets: perDay, MaxWait: time.Minute},
				{Name: "b", Weight: 1000, Pools: []string{"p"}, MaxWait: time.Minute},
				{Name: "idle", Weight: 1000, TPM: 7},
			},
		}))(t)
		time.Sleep(time.Minute)
		lease := admitted(t, g, Request{Tenant: "a", Pool: "p", Input: 10, Output: 20})
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

// Who is there for its teams alone has limits in a pool too, for all to see.
func TestTenantState_OfWhoIsThereForItsTeams(t *testing.T) {
	g := must(t, Config{
		Pools: []Pool{{Name: "p", TPM: 1000, MaxQueue: 10}},
		Tenants: []Tenant{
			{Name: "org", Weight: 1000, NoCalls: true, InPool: map[string]Limits{"p": {RPM: 7}}},
			{Name: "org/x", Weight: 1000},
		},
	})
	admitted(t, g, demand("org/x", 1))
	ts, _ := g.TenantState("org")
	if want := (LimitState{axisRequests, "p", 7, 1}); len(ts.Limits) != 1 || ts.Limits[0] != want {
		t.Errorf("its limits are %v, want %v", ts.Limits, want)
	}
	if st := g.Standing("org", "p"); st.Requests.Limit != 7 || st.Requests.Remaining != 6 {
		t.Errorf("it stands at %v, want 6 of 7 requests", st.Requests)
	}
	if _, rej := Rejected(g.Acquire(t.Context(), demand("org", 1))); rej == nil || rej.Reason != ReasonUnknown {
		t.Errorf("a call in its name got %v", rej)
	}
}
