package dashboards

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/llmgov/llmgov/dashboards"
	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/pgtest"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
)

var withPrometheus = flag.Bool("prometheus", false, "ask a real Prometheus every query of the dashboards and rules: make test-dashboards")

func TestMain(m *testing.M) { processtest.Main(m) }

// read is the text of a file.
func read(t *testing.T, file string) string {
	t.Helper()
	return string(testkit.Must(os.ReadFile(file))(t))
}

// question is a query of a panel, variable, annotation, rule or alert.
type question struct {
	of, expr string
	labels   []string // that its legend names
}

// TestDashboards asks a real Prometheus, which scrapes two real gateways under load, every
// query of dashboards, rules and cost reports. Each must have an answer; those of alerts when what they are for is provoked.
func TestDashboards(t *testing.T) {
	if !*withPrometheus {
		t.Skip("needs -prometheus, and a minute or two: make test-dashboards")
	}
	w := newWatched(t)
	asked := append(panelQuestions("llmgov"), panelQuestions("llmgov-text")...)
	reports := costQuestions(t)
	w.open = slices.Concat(asked, ruleQuestions(), formats, reports)
	t.Logf("%d queries of dashboards, %d of docs/cost-reports.md, %d others", len(asked), len(reports), len(w.open)-len(asked)-len(reports))
	w.until(4*time.Minute, "nobody's doing", calm)

	// What comes takes away what calm questions need: the files of one gateway, then the other, then the store.
	w.rewrite(w.dirs[0], "weight: 3", "weight: 4")
	w.until(30*time.Second, "LlmgovPoliciesDiffer", only("LlmgovPoliciesDiffer", "annotation Policy reloads"))
	w.rewrite(w.dirs[0], "weight: 4", "wait: 4")
	w.until(30*time.Second, "LlmgovPolicyReloadFailing", only("LlmgovPolicyReloadFailing"))
	w.drain(w.gateways[1])
	w.until(30*time.Second, "LlmgovDrainingLong", only("LlmgovDrainingLong"))
	w.gateways[1].Kill()
	w.until(30*time.Second, "LlmgovGatewayDown", only("LlmgovGatewayDown"))
	w.postgres.Stop()
	w.until(30*time.Second, "the store is lost", only("LlmgovStoreDown", "LlmgovDegraded", "annotation Degraded", "Refused without a grant"))

	for _, q := range w.open {
		if !slices.Contains(needNotBe, q.of) {
			t.Errorf("%s has no data: %s", q.of, q.expr)
		} else if w.answered(q) {
			t.Logf("%s has data by chance", q.of)
		}
	}
	for _, name := range []string{"LlmgovPolicyReloadFailing", "LlmgovStoreDown", "LlmgovDegraded", "LlmgovUpstreamDown", "LlmgovGatewayDown"} {
		waitFor(t, 20*time.Second, name+" is not pending", func() bool { return w.alerting()[name] })
	}
}

// formats are that one job is scraped as OpenMetrics, and the other as text.
var formats = []question{
	{of: "OpenMetrics", expr: `llmgov_request_duration_seconds_bucket{job="llmgov", le="5.0"}`},
	{of: "text", expr: `llmgov_request_duration_seconds_bucket{job="llmgov-text", le="5"}`},
}

// needNotBe are alerts on what must not be, and a panel of what only upstreams tell that declare limits: no traffic brings it about for sure. What they
// say when it is so nevertheless is in dashboards/testdata/alerts.test.yml.
var needNotBe = []string{
	"LlmgovTenantStarved", "LlmgovPoolUnfair", "LlmgovUnusedWhileWaiting", "LlmgovStoreSlow", "LlmgovStoreUnreadable", "LlmgovLimitLowerThanConfigured", "LlmgovUpstreamUsedByOthers", "Used by others", "LlmgovCertificateExpires",
}

// provoked are questions that have an answer only then.
var provoked = []string{
	"LlmgovPoliciesDiffer", "LlmgovPolicyReloadFailing", "LlmgovStoreDown", "LlmgovDegraded", "LlmgovDrainingLong", "LlmgovGatewayDown",
	"annotation Policy reloads", "annotation Degraded", "Refused without a grant",
}

func calm(q question) bool {
	return !slices.Contains(provoked, q.of) && !slices.Contains(needNotBe, q.of)
}

func only(names ...string) func(question) bool {
	return func(q question) bool { return slices.Contains(names, q.of) }
}

// watched is two gateways that share limits, their traffic, and who watches them.
type watched struct {
	*prometheus
	postgres *pgtest.Server
	dirs     []string
	gateways []*processtest.Process
	open     []question // not yet answered
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	w := &watched{postgres: pgtest.New(t)}
	good := processtest.NewProvider(t, mock.Config{FirstToken: 20 * time.Millisecond, TokensPerSecond: 500, Batch: 1000, KVCache: 10000})
	shaky := processtest.NewProvider(t, mock.Config{ErrorRate: 0.4, HangupRate: 0.2, TokensPerSecond: 500})
	strict := processtest.NewProvider(t, mock.Config{RPM: 1})
	var commands []processtest.Command
	for i := range 2 {
		w.dirs = append(w.dirs, dashboardSite(t, w.postgres.URL(), good.URL, shaky.URL, strict.URL))
		commands = append(commands, processtest.Command{Dir: w.dirs[i], Args: []string{
			"serve", "-c", "llmgov.yaml", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
			"--node", fmt.Sprint("n", i), "--region", []string{"eu", "us"}[i],
		}})
	}
	w.gateways = processtest.ServeAll(t, commands...)
	rules := filepath.Join(w.dirs[0], "export")
	processtest.Command{Args: []string{"dashboards", "export", rules}}.Start(t).EndsWith(t, 0)
	w.prometheus = startPrometheus(t, filepath.Join(rules, "prometheus"), w.gateways[0].Admin, w.gateways[1].Admin)
	ctx, stop := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	for _, c := range dashboardCallers {
		for range c.workers {
			calling.Go(func() { c.run(ctx, w.gateways) })
		}
	}
	t.Cleanup(func() { stop(); calling.Wait() })
	return w
}

// until asks what is wanted, again and again, until all of it has been answered.
func (w *watched) until(most time.Duration, what string, wanted func(question) bool) {
	w.t.Helper()
	began := time.Now()
	waitFor(w.t, most, what, func() bool {
		w.open = slices.DeleteFunc(w.open, func(q question) bool { return wanted(q) && w.answered(q) })
		return !slices.ContainsFunc(w.open, wanted)
	})
	w.t.Logf("%s: %d left after %v", what, len(w.open), time.Since(began).Round(time.Second))
}

// answered asks a question, and looks whether the answer has the labels that are shown.
func (w *watched) answered(q question) bool {
	found, err := w.values(q.expr)
	if err != nil {
		w.t.Errorf("%s: %v", q.of, err)
		return true
	}
	for _, label := range q.labels {
		if len(found) > 0 && !slices.ContainsFunc(found, func(m map[string]string) bool { return m[label] != "" }) {
			w.t.Errorf("%s shows {{%s}}, which %s has not: %v", q.of, label, q.expr, slices.Sorted(maps.Keys(found[0])))
		}
	}
	return len(found) > 0
}

func (w *watched) rewrite(dir, from, to string) {
	file := filepath.Join(dir, "tenants", "all.yaml")
	testkit.OK(w.t, os.WriteFile(file, []byte(strings.Replace(read(w.t, file), from, to, 1)), 0o600))
}

// drain tells a gateway to stop while an answer takes longer than it may.
func (w *watched) drain(p *processtest.Process) {
	c := caller{tenant: "eager", model: "slow", body: `"stream":true,"max_tokens":2000,"mock":{"token_ms":100}`}
	go c.call(w.t.Context(), p)
	time.Sleep(time.Second) // for the call to be there; if it is not, the drain is over before it is seen
	p.Signal(w.t, syscall.SIGTERM)
}

var legendLabel = regexp.MustCompile(`\{\{(\w+)\}\}`)

// panelQuestions are those of all dashboards, with what Grafana puts in for variables.
func panelQuestions(job string) (all []question) {
	for _, d := range dashboards.All() {
		fill := strings.NewReplacer("$__rate_interval", "10s", "$__range", "1m", "$job", job, "$instance", ".*", "$pool", ".*", "$region", ".*")
		tenant := ".*"
		if strings.HasSuffix(d.UID, "-tenant") {
			tenant = "(acme|small|shade)"
		}
		add := func(of, expr, legend string) {
			q := question{of: of, expr: strings.NewReplacer("$tenant", tenant, "$one", tenant).Replace(fill.Replace(expr))}
			for _, m := range legendLabel.FindAllStringSubmatch(legend, -1) {
				q.labels = append(q.labels, m[1])
			}
			all = append(all, q)
		}
		for _, v := range d.Templating.List {
			if m := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(v.Definition); m != nil {
				add("variable "+v.Name, "group by ("+m[2]+") ("+m[1]+")", "{{"+m[2]+"}}")
			}
		}
		for _, a := range d.Annotations.List {
			add("annotation "+a.Name, a.Expr, a.TitleFormat+a.TextFormat)
		}
		for _, p := range d.AllPanels() {
			for _, q := range p.Targets {
				add(p.Title, q.Expr, q.LegendFormat)
			}
		}
	}
	return all
}

func ruleQuestions() (all []question) {
	for _, g := range dashboards.Rules() {
		for _, r := range g.Rules {
			all = append(all, question{of: r.Record + r.Alert, expr: r.Expr})
		}
	}
	return all
}

// costQuestions are the queries of docs/cost-reports.md. Each tenant that calls has its costs.
func costQuestions(t *testing.T) (all []question) {
	t.Helper()
	page := read(t, "../../../../docs/cost-reports.md")
	_, block, _ := strings.Cut(page, "```promql\n")
	dollars, _, _ := strings.Cut(block, "```")
	if !strings.Contains(dollars, "llmgov_spend_usd_total") {
		t.Fatal("docs/cost-reports.md has no query of the dollars")
	}
	for _, tenant := range []string{"acme", "acme/search", "eager"} {
		one := fmt.Sprintf(`(%s) > 0 and on (tenant) llmgov_tokens_total{tenant=%q}`, dollars, tenant)
		all = append(all, question{of: "dollars of " + tenant, expr: one, labels: []string{"tenant"}})
	}
	for _, line := range regexp.MustCompile("`(sum by [^`]+|llmgov_[^`]+ > [^`]+)`").FindAllStringSubmatch(page, -1) {
		all = append(all, question{of: "cost reports", expr: strings.Replace(line[1], "…", dollars, 1)})
	}
	if len(all) != 5 {
		t.Fatalf("docs/cost-reports.md has %d queries besides the dollars, not 2", len(all)-3)
	}
	return all
}
