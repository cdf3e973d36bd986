package governor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/limits/shape"
	"github.com/llmgov/llmgov/governor/refusal"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// TestWindows_CallersSeeTheirOwnTime: the refusal, when to come back, and what is left are those of the window that is full, beside
// a minute that has room.
func TestWindows_CallersSeeTheirOwnTime(t *testing.T) {
	for _, x := range []struct {
		kind  shape.Kind
		again time.Duration // after ten calls at once
	}{
		{shape.Rolling, 30 * time.Second},
		{shape.Fixed, 20 * time.Second}, // the window began ten seconds before
		{shape.TokenBucket, 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := limits.Window{Of: limits.Requests, Rule: shape.Rule{Kind: x.kind, Amount: 10, Per: 30 * time.Second}}
			g := testkit.Must(New(Config{
				Pools:   []Pool{{Name: "p", Concurrency: 100, MaxQueue: 10}},
				Tenants: []Tenant{{Name: "a", Weight: 1, RPM: 60, Windows: []limits.Window{w}}},
			}))(t)
			start := time.Now().Truncate(30 * time.Second).Add(40 * time.Second)
			time.Sleep(time.Until(start))
			ask := func() *Refusal {
				l, rej := Refused(g.Acquire(context.Background(), Request{Tenant: "a", Pool: "p", Input: 1}))
				if rej == nil {
					l.Settle(Usage{Input: 1})
				}
				return rej
			}
			for range 10 {
				if rej := ask(); rej != nil {
					t.Fatal(rej)
				}
			}
			st := g.Standing("a", "p").Requests
			if st.Limit != 10 || st.Remaining != 0 || st.Reset <= 0 || st.Reset > 31*time.Second {
				t.Errorf("%v: it stands at %+v", x.kind, st)
			}
			rej := ask()
			if rej == nil || rej.Axis != w.Name() || !strings.Contains(rej.Error(), "on requests per 30s") {
				t.Fatalf("%v: the eleventh call gets %v", x.kind, rej)
			}
			if late := rej.RetryAfter - x.again; late < 0 || late > 300*time.Millisecond {
				t.Errorf("%v: it is to come back in %v, want %v", x.kind, rej.RetryAfter, x.again)
			}
			time.Sleep(rej.RetryAfter)
			if rej := ask(); rej != nil {
				t.Errorf("%v: when told to come back it gets %v", x.kind, rej)
			}
		})
	}
}

// TestLimits_DebtIsPaid: a tenant whose calls take many times what they are held at uses no more than its limit over time, and is told of its debt.
// A call is let go again when it was told to come back.
func TestLimits_DebtIsPaid(t *testing.T) {
	minute := limits.Window{Of: limits.Output, Rule: shape.Rule{Kind: shape.Rolling, Amount: 1000, Per: time.Minute}}
	for name, own := range map[string]Tenant{
		"tpm":    {TPM: 1000},
		"otpm":   {OTPM: 1000},
		"window": {Windows: []limits.Window{minute}},
	} {
		synctest.Test(t, func(t *testing.T) {
			own.Name = "a"
			own.Weight = 1
			g := testkit.Must(New(Config{Pools: []Pool{{Name: "p", Concurrency: 100, MaxQueue: 10}}, Tenants: []Tenant{own}}))(t)
			all := int64(0)
			calls := 0
			for begin := time.Now(); time.Since(begin) < time.Hour; calls++ {
				l, rej := Refused(g.Acquire(context.Background(), Request{Tenant: "a", Pool: "p", Output: 100}))
				if rej != nil {
					t.Fatalf("%s: %v", name, rej)
				}
				l.Settle(Usage{Output: 7000})
				all += 7000
				_, rej = Refused(g.Acquire(context.Background(), Request{Tenant: "a", Pool: "p", Output: 100}))
				used := int64(7000)
				if rej != nil && calls > 0 { // some 900 of the debt before count
					used = max(7850, min(7900, rej.Used))
				}
				want := fmt.Sprintf("Used %d, Requested 100. It is in debt by %d, which counts until it is paid off at the limit's rate.", used, used-1000)
				if rej == nil || !strings.Contains(rej.Error(), want) {
					t.Fatalf("%s: the next call gets %v", name, rej)
				}
				time.Sleep(rej.RetryAfter)
			}
			if all > 60*1000+2*7000 || calls < 8 {
				t.Errorf("%s: %d tokens are used in an hour, by %d calls", name, all, calls)
			}
		})
	}
}

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
				{Name: "a", Weight: 1, RPM: 5, Concurrency: 9, Budgets: perDay, MaxWait: time.Minute},
				{Name: "b", Weight: 1, Pools: []string{"p"}, MaxWait: time.Minute},
				{Name: "idle", Weight: 1, TPM: 7, RPM: 3, Budgets: perDay, InPool: map[string]Limits{"q": {TPM: 5, Concurrency: 1}}},
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
		for _, name := range []string{"a", "b", "idle"} { // limits of who never called are shown, and not made
			if called := name != "idle"; g.Called(name) != called || (g.tenants[name].over != nil) != called {
				t.Errorf("%s has called: %v; its limits are made: %v", name, g.Called(name), g.tenants[name].over != nil)
			}
		}
		if s := g.State(g.Called); len(s.Tenants) != 2 || len(s.Pools[0].Shares) != 2 || s.Pools[0].Members != 3 {
			t.Errorf("the state of callers has %d tenants and %d of %d shares, want 2, and 2 of 3", len(s.Tenants), len(s.Pools[0].Shares), s.Pools[0].Members)
		}
		before, _ := g.TenantState("idle")
		g.Refresh(t.Context(), "idle") // which makes them
		if after, _ := g.TenantState("idle"); len(after.Limits) != 4 || !g.Called("idle") || !cmp.Equal(before, after) {
			t.Errorf("idle is %+v, and when its limits are made %+v", before, after)
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
			{Name: "org", Weight: 1, NoCalls: true, InPool: map[string]Limits{"p": {RPM: 7}}},
			{Name: "org/x", Weight: 1},
		},
	})
	admitted(t, g, demand("org/x", 1))
	ts, _ := g.TenantState("org")
	if want := (LimitState{refusal.AxisRequests, "p", 7, 1}); len(ts.Limits) != 1 || ts.Limits[0] != want {
		t.Errorf("its limits are %v, want %v", ts.Limits, want)
	}
	if st := g.Standing("org", "p"); st.Requests.Limit != 7 || st.Requests.Remaining != 6 {
		t.Errorf("it stands at %v, want 6 of 7 requests", st.Requests)
	}
	if _, rej := Refused(g.Acquire(t.Context(), demand("org", 1))); rej == nil || rej.Reason != ReasonUnknown {
		t.Errorf("a call in its name got %v", rej)
	}
}
