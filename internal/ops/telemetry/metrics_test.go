package telemetry

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// busy is a registry in which every metric has been touched.
func busy(t *testing.T) (*Metrics, *governor.Governor) {
	t.Helper()
	g := testkit.Must(governor.New(governor.Config{
		Pools: []governor.Pool{{Name: "p", TPM: 60_000, RPM: 600, Concurrency: 4, HoldBackPPM: 500_000, MaxQueue: 10, Burst: time.Minute, TicketWait: time.Second}},
		Tenants: []governor.Tenant{{Name: "acme", Tier: "pro", Weight: 1, TPM: 9000, Concurrency: 2, Budgets: []governor.Budget{
			{Unit: governor.UnitTokens, Limit: 1000, Per: budget.Day}, {Unit: governor.UnitRequests, Limit: 10, Per: budget.Day},
		}}},
	}))(t)
	m := New()
	m.Watch(g.State, "abc")
	m.WatchEngines(func() []EngineState {
		return []EngineState{{Upstream: "u", Up: true, Running: 3, Waiting: 1, KVUse: 0.5}, {Upstream: "v"}}
	})
	m.WatchUpstreams(func() []UpstreamState {
		return []UpstreamState{{Pool: "p", Upstream: "u", Up: true, Tries: map[string]int64{"served": 1}, Limit: map[string]int64{"tokens": 1}, Foreign: map[string]int64{"tokens": 1}}}
	})
	m.WatchStore(func() bool { return true })
	m.WatchDraining(g.Draining)
	m.WatchConnections(func() (int, int, int64) { return 3, 2, 1 })
	m.WatchCertificate("tls", func() time.Time { return time.Unix(1, 0) })
	m.WatchBodies(func() int64 { return 1 })
	m.WatchSharing(g.State, func(string) map[string]float64 { return map[string]float64{"eu": 1} }, func() int { return 1 })
	m.StoreAsked("beat", time.Millisecond)
	m.WatchDecisionLog(func() uint64 { return 1 })
	m.Turned("", "", "", "invalid_api_key")
	m.Overhead.Observe(1e-5)
	p := m.Pool("p")
	p.FirstToken.Observe(.2)
	p.Duration.Observe(2)
	p.EstimateError.Observe(3)
	p.Cancelled.Inc()
	p.UpstreamError("503")
	a := m.Account("acme", "pro", "p")
	a.Admitted("m", 500, time.Second, "")
	a.Refused(governor.ReasonTokens)
	a.Refused(governor.ReasonCancelled)
	a.ShadowRefused(governor.ReasonTokens)
	a.Ended(OK, "", Taken{Model: "m", Usage: governor.Usage{Input: 100, CachedInput: 60, Output: 50, Reasoning: 20}, MicroUSD: 1_500_000}, 350)
	a.Ended(Failed, "truncated", Taken{Model: "m", Usage: governor.Usage{Input: 10}, MicroUSD: 250_000, Estimated: true}, 0)
	return m, g
}

func TestMetricsAreCleanToPrometheus(t *testing.T) {
	m, _ := busy(t)
	problems := testkit.Must(testutil.GatherAndLint(m.Registry()))(t)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// The document has every metric there is with its labels, and no other.
func TestMetricsAreDocumented(t *testing.T) {
	m, _ := busy(t)
	families := testkit.Must(m.Registry().Gather())(t)
	have := map[string]string{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), namespace+"_") {
			continue
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		slices.Sort(labels)
		have[f.GetName()] = strings.Join(labels, ", ")
	}
	doc := string(testkit.Must(os.ReadFile("../../../docs/api.md"))(t))
	name, values := regexp.MustCompile(namespace+`_[a-z_]+`), regexp.MustCompile(`\([^)]*\)`)
	named := map[string]string{}
	for _, elsewhere := range name.FindAllString(doc, -1) {
		named[elsewhere] = "not in the table"
	}
	for _, row := range regexp.MustCompile("(?m)^\\| (`"+namespace+"_[^|]*) \\|([^|]*)\\|").FindAllStringSubmatch(doc, -1) {
		labels := strings.Split(strings.TrimSpace(values.ReplaceAllString(row[2], "")), ",")
		for i := range labels {
			labels[i] = strings.TrimSpace(labels[i])
		}
		slices.Sort(labels)
		for _, metric := range name.FindAllString(row[1], -1) {
			named[metric] = strings.Join(labels, ", ")
		}
	}
	testkit.Same(t, have, named, "docs/api.md (-registered +documented)")
}

// Who shares nothing may hand out what is left of the minute, and uses it all in one region.
func TestMetricsOfOneAlone(t *testing.T) {
	state := governor.State{Pools: make([]governor.PoolState, 3)}
	for i, name := range []string{"idle", "busy", "over"} {
		p := &state.Pools[i]
		p.Config.Name = name
		p.Axes[escrow.Tokens].On = true
		p.Axes[escrow.Tokens].Limit = 1000
	}
	state.Pools[1].Axes = [escrow.Rolling]escrow.AxisState{ // input and output apart
		escrow.Requests: {On: true, Limit: 50}, escrow.Input: {On: true, Limit: 700, Used: 300}, escrow.Output: {On: true, Limit: 300, Used: 100},
	}
	state.Pools[2].Axes[escrow.Tokens].Used = 1100 // a limit that was lowered
	m := New()
	m.WatchSingle(func(...func(string) bool) governor.State { return state }, "eu")
	want := `# HELP llmgov_grant_tokens Tokens that may still be granted to calls: by the grant in force, until it expires; in a single gateway the rest of the minute.
# TYPE llmgov_grant_tokens gauge
llmgov_grant_tokens{pool="busy"} 600
llmgov_grant_tokens{pool="idle"} 1000
llmgov_grant_tokens{pool="over"} 0
# HELP llmgov_region_share_ratio A region's part of the usage of a pool in the last minute.
# TYPE llmgov_region_share_ratio gauge
llmgov_region_share_ratio{pool="busy",region="eu"} 1
llmgov_region_share_ratio{pool="idle",region="eu"} 0
llmgov_region_share_ratio{pool="over",region="eu"} 1
`
	if err := testutil.GatherAndCompare(m.Registry(), strings.NewReader(want), "llmgov_grant_tokens", "llmgov_region_share_ratio"); err != nil {
		t.Error(err)
	}
}

func TestTokensAddUp(t *testing.T) {
	m, _ := busy(t)
	const want = `
# HELP llmgov_spend_estimated_usd_total The part of spend_usd_total of calls whose usage was estimated, because the upstream did not report it.
# TYPE llmgov_spend_estimated_usd_total counter
llmgov_spend_estimated_usd_total{model="m",pool="p",tenant="acme",tier="pro"} 0.25
# HELP llmgov_spend_usd_total What calls cost, of models that have prices.
# TYPE llmgov_spend_usd_total counter
llmgov_spend_usd_total{model="m",pool="p",tenant="acme",tier="pro"} 1.75
# HELP llmgov_tokens_total Tokens by kind; reasoning is part of output, cached_input of input.
# TYPE llmgov_tokens_total counter
llmgov_tokens_total{kind="cached_input",model="m",pool="p",tenant="acme",tier="pro"} 60
llmgov_tokens_total{kind="held",model="m",pool="p",tenant="acme",tier="pro"} 500
llmgov_tokens_total{kind="input",model="m",pool="p",tenant="acme",tier="pro"} 110
llmgov_tokens_total{kind="output",model="m",pool="p",tenant="acme",tier="pro"} 50
llmgov_tokens_total{kind="reasoning",model="m",pool="p",tenant="acme",tier="pro"} 20
llmgov_tokens_total{kind="refunded",model="m",pool="p",tenant="acme",tier="pro"} 350
`
	if err := testutil.GatherAndCompare(m.Registry(), strings.NewReader(want), "llmgov_tokens_total", "llmgov_spend_usd_total", "llmgov_spend_estimated_usd_total"); err != nil {
		t.Error(err)
	}
}

// The gauges are the governor's own books, and are there at zero, too.
func TestBooksAreTheGovernors(t *testing.T) {
	m, g := busy(t)
	l, rej := governor.Refused(g.Acquire(t.Context(), governor.Request{Tenant: "acme", Pool: "p", Output: 700}))
	if rej != nil {
		t.Fatal(rej)
	}
	check := func(inflight, used, spent string) {
		t.Helper()
		want := `
# HELP llmgov_budget_used_ratio Used part of a budget, with tokens held: the fullest of a tenant's budgets of a period; tenant is empty for the fullest of the pools' budgets.
# TYPE llmgov_budget_used_ratio gauge
llmgov_budget_used_ratio{per="day",tenant="acme"} ` + spent + `
# HELP llmgov_inflight_requests Calls in flight.
# TYPE llmgov_inflight_requests gauge
llmgov_inflight_requests{pool="p",tenant="acme"} ` + inflight + `
# HELP llmgov_pool_tokens_rolling Tokens of this gateway that count against the pool's limit now: of the last 60 s, and held.
# TYPE llmgov_pool_tokens_rolling gauge
llmgov_pool_tokens_rolling{pool="p"} ` + used + `
`
		if err := testutil.GatherAndCompare(m.Registry(), strings.NewReader(want), "llmgov_budget_used_ratio", "llmgov_inflight_requests", "llmgov_pool_tokens_rolling"); err != nil {
			t.Error(err)
		}
	}
	check("1", "700", "0.7")
	l.Settle(governor.Usage{Output: 40})
	check("0", "40", "0.1")
}

func TestShare_RoundingErrorsAreZero(t *testing.T) {
	for of, want := range map[float64]float64{9.84e-19: 0, -2e-17: 0, 0: 0, 1e-6: 1e-6, 0.25: 0.25} {
		if got := share(of); got != want {
			t.Errorf("share(%g) = %g, want %g", of, got, want)
		}
	}
}
