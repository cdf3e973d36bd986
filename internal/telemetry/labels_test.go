package telemetry

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/testkit"
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
		tenants = append(tenants, governor.Tenant{Name: name, Tier: "pro", Weight: escrow.WeightOne, RPM: 60})
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
			all[name].Took(governor.Usage{Input: 10})
			all[name].ShadowRefused(governor.ReasonTokens)
			m.Turned(name, "pro", "p", "model_not_allowed")
			all[name].Release()
		}
		m.Retain([]string{"p"}, reaches)
	}
	m.Retain([]string{"p"}, reaches)
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
	m.Retain(nil, nil)
	if n := len(m.series.accounts) + len(m.series.children) + len(m.series.users) + len(m.series.others) + len(m.series.turned); n != 0 {
		t.Errorf("%d entries are left behind: %+v", n, m.series.users)
	}
}

// crowdOf is a gateway's metrics with so many tenants, all of which have used every
// counter that a busy tenant does.
func crowdOf(t testing.TB, n int) *Metrics {
	var tenants []governor.Tenant
	reaches := map[string][]string{}
	for i := range n {
		name := fmt.Sprintf("tenant-%05d", i)
		tenants = append(tenants, governor.Tenant{Name: name, Tier: "pro", Weight: escrow.Weight(1000 + i%7), RPM: 600, TPM: 60_000, Concurrency: 16})
		reaches[name] = []string{"p"}
	}
	g := testkit.Must(governor.New(governor.Config{Pools: []governor.Pool{{Name: "p", TPM: 1e9, MaxQueue: 1000}}, Tenants: tenants}))(t)
	m := New()
	m.Watch(g.State, "abc")
	p := m.Pool("p")
	m.Retain([]string{"p"}, reaches)
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

func BenchmarkScrape(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := crowdOf(b, n)
			series := 0
			for b.Loop() {
				series, _ = scrape(b, m)
			}
			b.ReportMetric(float64(series), "series")
		})
	}
}

// BenchmarkMetric is what one metric costs the request that it counts, and Request what
// all of a plain stream's do.
func BenchmarkMetric(b *testing.B) {
	m := New()
	p := m.Pool("p")
	a := m.Account("acme", "pro", "p")
	a.Refused(governor.ReasonShare)
	rng := rand.New(rand.NewPCG(1, 2))
	times := make([]float64, 1024)
	for i := range times {
		times[i] = rng.ExpFloat64()
	}
	n := 0
	next := func() float64 { n++; return times[n%len(times)] }
	for _, c := range []struct {
		name string
		do   func()
	}{
		{"counter", func() { a.ok.Inc() }},
		{"counter of tokens", func() { a.input.Add(100) }},
		{"counter by reason", func() { a.Refused(governor.ReasonShare) }},
		{"classic histogram", func() { m.Overhead.Observe(next() / 1e4) }},
		{"native and classic histogram", func() { p.Duration.Observe(next()) }},
		{"hold and release", func() { a.Hold(); a.Release() }},
		{"request", func() {
			a.Hold()
			a.Admitted(500, time.Millisecond, "")
			m.Overhead.Observe(next() / 1e4)
			p.FirstToken.Observe(next())
			p.Duration.Observe(next())
			p.EstimateError.Observe(next())
			a.Ended(OK, "", governor.Usage{Input: 100, Output: 50}, 500)
			a.Release()
		}},
	} {
		b.Run(strings.ReplaceAll(c.name, " ", "_"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.do()
			}
		})
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
