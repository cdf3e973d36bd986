package governor

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/governor/refusal"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// perTenantSite is a pool of 20 slots for a heavy tenant with a team, and a light one.
func perTenantSite(t *testing.T, change func(*Pool)) *Governor {
	t.Helper()
	p := Pool{Name: "p", Concurrency: 20, PerTenant: true, MaxQueue: 1000}
	if change != nil {
		change(&p)
	}
	return must(t, Config{
		Pools: []Pool{p},
		Tenants: []Tenant{
			{Name: "heavy", Weight: 9},
			{Name: "heavy/team", Weight: 1},
			{Name: "light", Weight: 1, MaxWait: time.Hour},
		},
	})
}

// runs takes so many calls of a tenant.
func runs(t *testing.T, g *Governor, tenant string, calls int) (leases []Lease) {
	t.Helper()
	for len(leases) < calls {
		l, rej := Refused(g.Acquire(t.Context(), Request{Tenant: tenant, Pool: "p", Model: "m", Input: 1}))
		if rej != nil {
			t.Fatalf("beside %d calls: %v", len(leases), rej)
		}
		leases = append(leases, l)
	}
	return leases
}

// mayRun checks how many calls a tenant may run, as its callers are told.
func mayRun(t *testing.T, g *Governor, tenant string, want int64, when string) {
	t.Helper()
	if got := g.Standing(tenant, "p").Concurrent.Limit; got != want {
		t.Errorf("%s tenant %s may run %d, want %d", when, tenant, got, want)
	}
}

// TestPerTenant_Walk: failures halve how many calls a tenant may run, at most once for all that ran together; refusals lower nothing,
// successes at the limit raise it, and a failure counts for five minutes. Teams and tenants each have their own number.
func TestPerTenant_Walk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := perTenantSite(t, nil)
		first := runs(t, g, "heavy", 8)
		time.Sleep(time.Second)
		for _, l := range first {
			l.Failed()
			l.Break(Usage{})
		}
		mayRun(t, g, "heavy", 4, "after 8 calls failed together")
		second := runs(t, g, "heavy", 4)
		for range 50 {
			_, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "heavy", Pool: "p", Model: "m"}))
			if rej == nil || rej.Reason != ReasonConcurrency || rej.Limit != 4 || rej.Used != 4 || !strings.Contains(rej.Error(), "Recent calls of tenant heavy failed") {
				t.Fatalf("at its limit it gets %+v", rej)
			}
		}
		o, _ := g.Explain(Request{Tenant: "heavy", Pool: "p", Model: "m"})
		i := slices.IndexFunc(o.Checks, func(c Check) bool { return c.Axis == refusal.AxisPerTenant })
		if i < 0 || o.Checks[i].Limit != 4 || o.Checks[i].Used != 4 || o.Refused == nil || !o.Checks[i].Of(o.Refused) {
			t.Errorf("at its limit the checks are %+v, refused by %+v", o.Checks, o.Refused)
		}
		rest := runs(t, g, "light", 16)
		patient := time.Hour
		waits := make(chan Lease)
		go func() {
			l, _ := g.Acquire(t.Context(), Request{Tenant: "light", Pool: "p", Model: "m", MaxWait: &patient})
			waits <- l
		}()
		synctest.Wait()
		if _, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "heavy", Pool: "p", Model: "m"})); rej == nil || rej.Reason != ReasonConcurrency {
			t.Errorf("at its limit, while another's calls wait, it gets %+v", rej)
		}
		for _, l := range rest {
			l.Settle(Usage{})
		}
		l := <-waits
		l.Settle(Usage{})
		for _, other := range []string{"heavy/team", "light"} {
			mayRun(t, g, other, 20, "after another's calls failed")
		}
		for range 4 { // each at the limit
			second[0].Settle(Usage{Input: 1, Output: 1})
			second = append(second[1:], runs(t, g, "heavy", 1)...)
		}
		mayRun(t, g, "heavy", 5, "after 4 successes")
		for _, l := range second {
			l.Settle(Usage{}) // errors of its own
		}
		mayRun(t, g, "heavy", 5, "after errors of its own")
		time.Sleep(5 * time.Minute)
		runs(t, g, "heavy", 1)[0].Settle(Usage{Input: 1})
		mayRun(t, g, "heavy", 20, "five minutes later")
	})
}

// TestPerTenant_Upstreams: if upstreams have limits of their own, a tenant whose calls one of them fails goes to the other, and returns
// when it may. Who asks why is told of a limit only if none is open.
func TestPerTenant_Upstreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := perTenantSite(t, func(p *Pool) {
			p.Upstreams = []Upstream{{Name: "small", Weight: 1, Concurrency: 10}, {Name: "large", Weight: 1, Order: 1, Concurrency: 10}}
		})
		at := func(leases []Lease) (names []string) {
			for _, l := range leases {
				names = append(names, l.Upstream())
			}
			return names
		}
		calls := runs(t, g, "heavy", 4)
		time.Sleep(time.Second)
		for _, l := range calls {
			l.Failed()
		}
		if name, ok := calls[0].Move([]string{"small", "large"}, Usage{}, true); !ok || name != "large" {
			t.Errorf("a call that failed moves to %q, %v", name, ok)
		}
		for _, l := range calls[1:] {
			l.Break(Usage{})
		}
		if got := at(runs(t, g, "heavy", 4)); !slices.Equal(got, []string{"small", "small", "large", "large"}) {
			t.Errorf("then calls go to %v", got)
		}
		if got := at(runs(t, g, "light", 2)); !slices.Equal(got, []string{"small", "small"}) {
			t.Errorf("calls of another tenant go to %v", got)
		}
		small := Request{Tenant: "heavy", Pool: "p", Model: "m", Via: 0b01}
		if _, rej := Refused(g.Acquire(t.Context(), small)); rej == nil || rej.Axis != refusal.AxisPerTenant || rej.Limit != 2 {
			t.Errorf("a call that may use no other gets %+v", rej)
		}
		if o, _ := g.Explain(small); o.Refused == nil || o.Refused.Axis != refusal.AxisPerTenant {
			t.Errorf("who asks about it is told %+v", o.Refused)
		}
		if o, _ := g.Explain(Request{Tenant: "heavy", Pool: "p", Model: "m"}); o.Refused != nil {
			t.Errorf("who asks about one that may use both is told %v", o.Refused)
		}
	})
}

// TestPerTenant_Returns: a tenant that loses a pool, and gets it back while its calls still run there, begins anew.
func TestPerTenant_Returns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Pools: []Pool{{Name: "p", Concurrency: 20, PerTenant: true, MaxQueue: 10}}, Tenants: []Tenant{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}}}
		g := must(t, cfg)
		for _, l := range runs(t, g, "a", 4) {
			l.Failed()
		}
		without := cfg
		without.Tenants = cfg.Tenants[1:]
		for _, c := range []Config{without, cfg} {
			testkit.OK(t, g.Apply(c))
		}
		mayRun(t, g, "a", 20, "with its pool back")
	})
}

// TestPerTenant_Reload: without per_tenant, nobody is held to what calls did before.
func TestPerTenant_Reload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := perTenantSite(t, nil)
		for _, l := range runs(t, g, "light", 2) {
			l.Failed()
		}
		mayRun(t, g, "light", 1, "after 2 calls failed")
		cfg := Config{Pools: []Pool{{Name: "p", Concurrency: 20, MaxQueue: 1000}}, Tenants: []Tenant{{Name: "light", Weight: 1}}}
		testkit.OK(t, g.Apply(cfg))
		mayRun(t, g, "light", 20, "without per_tenant")
		cfg.Pools[0] = Pool{Name: "p", TPM: 1000, PerTenant: true}
		if err := g.Apply(cfg); err == nil || !strings.Contains(err.Error(), "Concurrency") {
			t.Errorf("per tenant without a limit on concurrent calls: %v", err)
		}
	})
}

// TestPerTenant_Forgotten: a call that waits because earlier ones failed goes when no call has failed for five minutes, however long those run
// that its tenant has.
func TestPerTenant_Forgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := perTenantSite(t, nil)
		long := runs(t, g, "light", 2)
		long[0].Failed()
		long[0].Break(Usage{})
		patient := time.Hour
		began := time.Now()
		l, rej := Refused(g.Acquire(t.Context(), Request{Tenant: "light", Pool: "p", Model: "m", MaxWait: &patient}))
		if rej != nil || time.Since(began) != 5*time.Minute {
			t.Errorf("beside a call that runs on, another one goes after %v, %v; want it to after five minutes", time.Since(began), rej)
		}
		l.Settle(Usage{})
		long[1].Settle(Usage{Input: 1})
	})
}
