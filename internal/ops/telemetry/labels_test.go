package telemetry

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// TestOthers: who comes when there are series enough is counted with others, and has
// its own if it comes again when there is room.
func TestOthers(t *testing.T) {
	m := New()
	m.series.most = 2
	m.Pool("p")
	var tenants []governor.Tenant
	reaches := map[string][]string{}
	for _, name := range []string{"a", "b", "c", Other} {
		tenants = append(tenants, governor.Tenant{Name: name, Tier: "pro", Weight: 1, RPM: 60})
		reaches[name] = []string{"p"}
	}
	g := testkit.Must(governor.New(governor.Config{Pools: []governor.Pool{{Name: "p", TPM: 60_000}}, Tenants: tenants}))(t)
	m.Watch(g.State, "abc")
	all := map[string]*Account{}
	take := func() {
		for _, name := range []string{"a", "b", "c", Other} {
			if reaches[name] == nil {
				continue
			}
			all[name] = m.Account(name, "pro", "p")
			if !all[name].Hold() {
				t.Fatalf("the account of %s cannot be held", name)
			}
			all[name].Took(Taken{Model: "m", Usage: governor.Usage{Input: 10}, MicroUSD: 1})
			all[name].ShadowRefused(governor.ReasonTokens)
			m.Turned(name, "pro", "p", "model_not_allowed")
			all[name].Release()
		}
		m.Retain([]string{"p"}, reachOf(reaches))
	}
	m.Retain([]string{"p"}, reachOf(reaches))
	take()
	mustHave(t, m, "with room for two",
		"pool= tenant=a", "pool= tenant=b", "pool= tenant=other",
		"pool=p", "pool=p tenant=", "pool=p tenant=a", "pool=p tenant=a tier=pro", "pool=p tenant=b", "pool=p tenant=b tier=pro",
		"pool=p tenant=other", "pool=p tenant=other tier=pro", "pool=p tier=pro")
	if n := all["c"].ShadowRefusals(); n != 1 {
		t.Errorf("%d calls of c are counted as shadows, want its own 1", n)
	}
	const want = `
# HELP llmgov_limit A limit, by axis; tenant is empty for a pool's own, pool for a tenant's over all pools.
# TYPE llmgov_limit gauge
llmgov_limit{axis="requests",pool="",tenant="a"} 60
llmgov_limit{axis="requests",pool="",tenant="b"} 60
llmgov_limit{axis="requests",pool="",tenant="other"} 120
llmgov_limit{axis="tokens",pool="p",tenant=""} 60000
`
	if err := testutil.GatherAndCompare(m.Registry(), strings.NewReader(want), "llmgov_limit"); err != nil {
		t.Error(err)
	}

	delete(reaches, "a")
	delete(reaches, Other)
	take()
	if got := all["c"].children.labels.tenant; got != Other {
		t.Errorf("while it stays c counts as %s", got)
	}
	delete(reaches, "c")
	take()
	reaches["c"] = []string{"p"}
	take()
	if got := all["c"].children.labels.tenant; got != "c" {
		t.Errorf("when there is room c counts as %s", got)
	}
	m.Retain(nil, reachOf(nil))
	if n := len(m.series.accounts) + len(m.series.children) + len(m.series.users) + len(m.series.others) + len(m.series.turned); n != 0 {
		t.Errorf("%d entries are left behind: %+v", n, m.series.users)
	}
}

// reachOf is a policy of these tenants, each with its pools.
func reachOf(list map[string][]string) Reach {
	return func(tenant, pool string) bool {
		pools, there := list[tenant]
		return there && (pool == "" || slices.Contains(pools, pool))
	}
}

// crowdOf is a gateway's metrics with so many tenants, all of which have used every
// counter that a busy tenant does.
func crowdOf(t testing.TB, n int) *Metrics {
	var tenants []governor.Tenant
	reaches := map[string][]string{}
	for i := range n {
		name := fmt.Sprintf("tenant-%05d", i)
		tenants = append(tenants, governor.Tenant{Name: name, Tier: "pro", Weight: escrow.Weight(1000+i%7) / 1000, RPM: 600, TPM: 60_000, Concurrency: 16})
		reaches[name] = []string{"p"}
	}
	g := testkit.Must(governor.New(governor.Config{Pools: []governor.Pool{{Name: "p", TPM: 1e9, MaxQueue: 1000}}, Tenants: tenants}))(t)
	m := New()
	m.Watch(g.State, "abc")
	p := m.Pool("p")
	m.Retain([]string{"p"}, reachOf(reaches))
	for i := range tenants {
		a := m.Account(tenants[i].Name, "pro", "p")
		touch(m, a, p)
		a.Refused(governor.ReasonShare)
		if l, rej := g.Acquire(t.Context(), governor.Request{Tenant: tenants[i].Name, Pool: "p", Output: 100}); rej == nil {
			l.Settle(governor.Usage{Output: 100})
		}
	}
	return m
}

// scrape reads all of /metrics, and returns how many series there are of llmgov.
func scrape(t testing.TB, m *Metrics) (series int, size int) {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(w.Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatal(w.Code, err, string(body))
	}
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, namespace) {
			series++
		}
	}
	return series, len(body)
}

// TestManyTenants: ten thousand tenants have no more series than the cap lets them.
func TestManyTenants(t *testing.T) {
	m := crowdOf(t, testkit.Rounds(4*MaxAccounts, 10_000))
	began := time.Now()
	series, size := scrape(t, m)
	t.Logf("10,000 tenants: %d series, %d kB, in %v", series, size/1000, time.Since(began))
	if most := 30 * MaxAccounts; series > most {
		t.Errorf("there are %d series, want at most %d", series, most)
	}
	few, _ := scrape(t, crowdOf(t, MaxAccounts/2))
	if one := float64(few) / (MaxAccounts / 2); float64(series) > one*(MaxAccounts+50) {
		t.Errorf("a tenant has %.1f series, and 10,000 have %d, though only %d are to", one, series, MaxAccounts)
	}
}

// The label is one that sorts of lists in dashboards can leave out.
func TestOthers_Name(t *testing.T) {
	m := New()
	m.series.most = 0
	m.Pool("p")
	m.Account("a", "pro", "p")
	m.Account("b", "free", "p")
	if got := seriesOf(t, m); !slices.Contains(got, "pool=p tenant=other tier=free") || !slices.Contains(got, "pool=p tenant=other tier=pro") {
		t.Errorf("without room for anybody there are %v", got)
	}
}

// seriesOf lists whom there are series of.
func seriesOf(t *testing.T, m *Metrics) []string {
	t.Helper()
	families := testkit.Must(m.Registry().Gather())(t)
	var out []string
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), namespace+"_") {
			continue
		}
		for _, series := range f.GetMetric() {
			var parts []string
			for _, l := range series.GetLabel() {
				switch l.GetName() {
				case "tenant", "tier", "pool":
					parts = append(parts, l.GetName()+"="+l.GetValue())
				}
			}
			if len(parts) > 0 {
				out = append(out, strings.Join(parts, " "))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func mustHave(t *testing.T, m *Metrics, when string, want ...string) {
	t.Helper()
	if got := seriesOf(t, m); !slices.Equal(got, want) {
		t.Errorf("%s there are the series\n  %s\nwant\n  %s", when, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// touch makes every series of a tenant in a pool that there can be.
func touch(m *Metrics, a *Account, p *Pool) {
	a.Refused(governor.ReasonTokens)
	a.ShadowRefused(governor.ReasonStore)
	a.Ended(Failed, "truncated", Taken{Model: "m", Usage: governor.Usage{Input: 5, CachedInput: 1, Output: 4, Reasoning: 1}, MicroUSD: 2, Estimated: true}, 11)
	m.Turned(a.named.tenant, a.named.tier, a.named.pool, "model_not_allowed")
	m.Turned(a.named.tenant, a.named.tier, "", "invalid_request_error")
	p.UpstreamError("503")
}

// TestRetain takes away who goes, whole, and leaves the values of who stays.
func TestRetain(t *testing.T) {
	m := New()
	p := m.Pool("p")
	stays := m.Account("stays", "pro", "p")
	goes := m.Account("goes", "free", "p")
	m.Retain([]string{"p"}, reachOf(map[string][]string{"stays": {"p"}, "goes": {"p"}}))
	for _, a := range []*Account{stays, goes} {
		if !a.Hold() {
			t.Fatal("an account that the policy knows cannot be held")
		}
		touch(m, a, p)
		a.Release()
	}
	m.Retain([]string{"p"}, reachOf(map[string][]string{"stays": {"p"}}))
	left := []string{"pool=p", "pool=p tenant=stays tier=pro", "pool=p tier=pro", "pool= tenant=stays tier=pro"}
	slices.Sort(left)
	mustHave(t, m, "without the one", left...)
	if goes.Hold() {
		t.Error("an account whose series are gone can be held")
	}
	m.Turned("goes", "free", "", "model_not_allowed")
	m.Turned("stays", "pro", "elsewhere", "model_not_allowed")
	touch(m, stays, p)
	mustHave(t, m, "after late refusals", left...)
	if again := m.Account("stays", "pro", "p"); again != stays {
		t.Error("who stays has another account")
	}
	m.Retain(nil, reachOf(nil))
	mustHave(t, m, "without anybody")
}

// TestRetain_InFlight keeps the series for a call that still counts in them, unless
// the tenant comes back before it ends.
func TestRetain_InFlight(t *testing.T) {
	m := New()
	all := map[string][]string{"acme": {"p"}}
	a := m.Account("acme", "pro", "p")
	p := m.Pool("p")
	m.Retain([]string{"p"}, reachOf(all))
	for _, back := range []bool{true, false} {
		a.Hold()
		m.Retain(nil, reachOf(nil))
		touch(m, a, p)
		if got := seriesOf(t, m); !slices.Contains(got, "pool=p tenant=acme tier=pro") {
			t.Errorf("a call in flight counts nowhere: %v", got)
		}
		if back {
			m.Expect(reachOf(all))
			if m.Account("acme", "pro", "p") != a {
				t.Error("who came back before the last call has ended has another account")
			}
		}
		a.Release() // also in between
		if back {
			m.Retain([]string{"p"}, reachOf(all))
		}
		if got := seriesOf(t, m); back != (len(got) > 0) {
			t.Errorf("after the last call, back=%v: %v", back, got)
		}
	}
}

// TestQuiet: who has not called for an hour has no series, but keeps its counts, and has series again with its next call. Whoever has a call
// in flight, or a team that calls, keeps them.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New()
		all := map[string][]string{"gone": {"p"}, "org": {"p"}, "org/team": {"p"}, "slow": {"p"}, "never": {"p"}}
		var tenants []governor.Tenant
		for _, name := range slices.Sorted(maps.Keys(all)) {
			tenants = append(tenants, governor.Tenant{Name: name, Weight: 1, RPM: 60})
		}
		g := testkit.Must(governor.New(governor.Config{Pools: []governor.Pool{{Name: "p", TPM: 60_000}}, Tenants: tenants}))(t)
		m.Watch(g.State, "abc")
		m.Retain([]string{"p"}, reachOf(all))
		accounts := map[string]*Account{}
		for _, name := range []string{"gone", "org/team", "slow"} {
			accounts[name] = m.Account(name, "pro", "p")
			accounts[name].Hold()
			accounts[name].Refused(governor.ReasonTokens)
			m.Turned(name, "pro", "p", "model_not_allowed")
		}
		shown := func(when, want string) {
			t.Helper()
			m.hush(time.Now())
			names := map[string]bool{}
			for _, s := range seriesOf(t, m) {
				if _, name, of := strings.Cut(s, "tenant="); of {
					name, _, _ = strings.Cut(name, " ")
					names[name] = name != ""
				}
			}
			delete(names, "")
			if got := strings.Join(slices.Sorted(maps.Keys(names)), " "); got != want {
				t.Errorf("%s there are series of %q, want %q", when, got, want)
			}
		}
		shown("at first", "gone org org/team slow")
		accounts["gone"].Release()
		accounts["org/team"].Release()
		time.Sleep(time.Hour)
		shown("after an hour", "gone org org/team slow")
		accounts["org/team"].Hold()
		accounts["org/team"].Release()
		time.Sleep(time.Minute)
		shown("a minute later", "org org/team slow")
		m.Bound(MaxAccounts, 2*time.Minute)
		shown("two minutes after a call", "org org/team slow")
		time.Sleep(2 * time.Minute)
		shown("with a bound of two minutes", "slow")
		if a := accounts["gone"]; m.Account("gone", "pro", "p") != a || a.Refusals() != 1 || !a.Hold() {
			t.Error("the account of who was quiet is another, or cannot be held")
		}
		shown("with another call", "gone slow")
		for _, a := range accounts {
			a.Release()
		}
		m.Retain(nil, reachOf(nil))
		if n := len(m.series.accounts) + len(m.series.children) + len(m.series.users) + len(m.series.turned); n != 0 {
			t.Errorf("%d entries are left behind: %+v", n, m.series.users)
		}
	})
}

// TestRetain_Tier keeps what was counted in the tier before as long as the tenant is
// there, since the sum over tiers must not go back.
func TestRetain_Tier(t *testing.T) {
	m := New()
	for _, tier := range []string{"free", "pro"} {
		m.Account("acme", tier, "p")
		m.Retain([]string{"p"}, reachOf(map[string][]string{"acme": {"p"}}))
	}
	mustHave(t, m, "after the change of tier", "pool=p tenant=acme tier=free", "pool=p tenant=acme tier=pro", "pool=p tier=free", "pool=p tier=pro")
	m.Retain([]string{"p"}, reachOf(map[string][]string{"acme": nil}))
	mustHave(t, m, "without access")
}

// TestRetain_Races: whatever meets, no series is left behind, and no account is held
// whose series are gone.
func TestRetain_Races(t *testing.T) {
	m := New()
	var now sync.Mutex // as the gateway's: policies come one after the other
	testkit.AtOnce(4, func(n int) {
		for i := range 2000 {
			now.Lock()
			a := m.Account("acme", "pro", "p")
			p := m.Pool("p")
			reaches := map[string][]string{"acme": {"p"}}
			if (i+n)%2 == 0 {
				reaches = nil
			}
			m.Retain([]string{"p"}, reachOf(reaches))
			now.Unlock()
			if a.Hold() {
				touch(m, a, p)
				a.Release()
			}
		}
	})
	m.Retain(nil, reachOf(nil))
	mustHave(t, m, "at the end")
	if n := len(m.series.accounts) + len(m.series.users) + len(m.series.turned); n != 0 {
		t.Errorf("%d entries are left behind: %+v", n, m.series.users)
	}
}

// TestPolicy has one revision, the last.
func TestPolicy(t *testing.T) {
	m := New()
	for _, step := range []struct {
		do   func()
		good float64
	}{
		{func() { m.PolicyInForce("a", at(1)) }, 1},
		{func() { m.PolicyRead(false) }, 0},
		{func() { m.PolicyRead(true) }, 1},
		{func() { m.PolicyRead(false) }, 0},
		{func() { m.PolicyInForce("b", at(2)) }, 1},
	} {
		step.do()
		checkGauge(t, m, "llmgov_policy_reload_success", "", step.good)
	}
	checkGauge(t, m, "llmgov_policy_revision_info", "b", 1)
	checkGauge(t, m, "llmgov_policy_reload_timestamp_seconds", "", 2)
}

func at(second int64) time.Time { return time.Unix(second, 0) }

// checkGauge wants a gauge to have one series, with this hash and value.
func checkGauge(t *testing.T, m *Metrics, name, hash string, want float64) {
	t.Helper()
	families := testkit.Must(m.Registry().Gather())(t)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		one := f.GetMetric()[0]
		if got := one.GetGauge().GetValue(); len(f.GetMetric()) != 1 || got != want || hash != "" && one.GetLabel()[0].GetValue() != hash {
			t.Errorf("%s is %v, want one series of %v, %q", name, f.GetMetric(), want, hash)
		}
		return
	}
	t.Errorf("there is no %s", name)
}

// TestModels: so many models have series of their own; those beyond are counted as others, and their places are free when a tenant goes.
func TestModels(t *testing.T) {
	m := New()
	goes := m.Account("goes", "pro", "p")
	stays := m.Account("stays", "pro", "p")
	for i := range 2 * MaxModels {
		goes.Took(Taken{Model: fmt.Sprint("m", i), Usage: governor.Usage{Input: 1}, MicroUSD: 1})
	}
	stays.Took(Taken{Model: "late", Usage: governor.Usage{Input: 1}, MicroUSD: 1})
	if n := testutil.CollectAndCount(m.usd); n != MaxModels+2 {
		t.Errorf("%d series of money, want those of %d models and of two times others", n, MaxModels)
	}
	if sum := testutil.ToFloat64(goes.models.made[Other].input); sum != MaxModels {
		t.Errorf("others have %v tokens of the %d models beyond", sum, MaxModels)
	}
	m.Retain([]string{"p"}, reachOf(map[string][]string{"stays": {"p"}}))
	stays.Took(Taken{Model: "later", MicroUSD: 1})
	if stays.models.made["later"] == nil {
		t.Error("the places of who went are not free")
	}
}
