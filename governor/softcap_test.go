package governor

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/testkit"
)

// softCapSite is a pool of 20 slots, of which a tenant may have 12 once 10 are in use. A heavy tenant with a team shares it with a light one.
func softCapSite(t *testing.T) *Governor {
	t.Helper()
	return must(t, Config{
		Pools: []Pool{{Name: "p", Concurrency: 20, SoftCapPPM: 600_000, MaxQueue: 1000}},
		Tenants: []Tenant{
			{Name: "heavy", Weight: 9000, MaxWait: time.Hour},
			{Name: "heavy/team", Weight: 1000},
			{Name: "light", Weight: 1000, MaxWait: time.Hour},
		},
	})
}

// TestSoftCap_Explained: a call that its tenant's soft cap keeps out is told so, and so is who asks why; another tenant finds a slot at once.
func TestSoftCap_Explained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := softCapSite(t)
		calls := callsOf{Governor: g}
		defer calls.settle()
		for n := range 12 {
			if rej := calls.take(t, "heavy/team"); rej != nil {
				t.Fatalf("with %d of 20 slots in use: %v", n, rej)
			}
		}
		rej := calls.take(t, "heavy/team")
		if rej == nil || rej.Limit != 12 || rej.Used != 12 || rej.Reason != ReasonConcurrency || !strings.Contains(rej.Error(), "soft_cap") {
			t.Fatalf("at the cap a call gets %+v", rej)
		}
		o, _ := g.Explain(Request{Tenant: "heavy/team", Pool: "p", Model: "m"})
		i := slices.IndexFunc(o.Checks, func(c Check) bool { return c.Axis == axisSoftCap })
		if i < 0 || o.Checks[i].Limit != 12 || o.Checks[i].Used != 12 || o.Refused == nil || !o.Checks[i].Of(o.Refused) {
			t.Errorf("at the cap the checks are %+v, refused by %+v", o.Checks, o.Refused)
		}
		if rej = calls.take(t, "light"); rej != nil {
			t.Errorf("beside a tenant at its cap another is refused: %v", rej)
		}
	})
}

// TestSoftCap_EntitledIsReceived: a tenant at its soft cap, and the one that has what is left, both receive what they are
// entitled to within 3 %: the cap is policy, and no unfairness.
func TestSoftCap_EntitledIsReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shares := sharesUnder(t, softCapSite(t), 4, map[string]int{"heavy": 40, "light": 30}, func(worker int) time.Duration {
			return time.Second + time.Duration(17*worker)*time.Millisecond
		})
		for tenant, want := range map[string]float64{"heavy": 0.6, "light": 0.4} {
			got := shares[tenant]
			if math.Abs(got.Received/want-1) > 0.03 || math.Abs(got.Entitled/want-1) > 0.03 {
				t.Errorf("%s received %.4f of the pool and was entitled to %.4f, want %.1f of both", tenant, got.Received, got.Entitled, want)
			}
		}
	})
}

// TestSoftCap_Adaptive: an adaptive limit has no soft cap. One tenant alone at its cap would hold the limit at its least, because only
// a full one rises: it ran 2 calls before an upstream that could take 40.
func TestSoftCap_Adaptive(t *testing.T) {
	p := adaptivePool()
	p.SoftCapPPM = 500_000
	_, err := New(Config{Pools: []Pool{p}, Tenants: []Tenant{{Name: "a", Weight: 1000}}})
	if err == nil || !strings.Contains(err.Error(), "soft cap") {
		t.Errorf("got %v", err)
	}
}

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
		testkit.Virtual(t, name, func(t *testing.T) {
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
	}
}
