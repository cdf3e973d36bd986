package dashboards

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
	"github.com/llmgov/llmgov/tenants"
)

// prometheus is a real server that scrapes gateways each second, and evaluates the rules
// that llmgov exports.
type prometheus struct {
	t   *testing.T
	url string
}

var prometheusListens = regexp.MustCompile(`msg="Listening on" address=(\S+)`)

// startPrometheus lets one scrape each of the targets as two jobs: llmgov asks for OpenMetrics,
// as Prometheus does, and llmgov-text gets the older text, in which le is "5" and not "5.0".
func startPrometheus(t *testing.T, rules string, admins ...string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n", filepath.Join(rules, "llmgov-*.yml"))
	for job, wrap := range map[string]func(*testing.T, string) string{"llmgov": openMetrics, "llmgov-text": asText} {
		config += "- job_name: " + job + "\n  static_configs: [{targets: ["
		for _, admin := range admins {
			config += strconv.Quote(wrap(t, admin)[len("http://"):]) + ","
		}
		config += "]}]\n"
	}
	file := filepath.Join(dir, "prometheus.yml")
	testkit.OK(t, os.WriteFile(file, []byte(config), 0o600))
	errs := testkit.Must(os.Create(filepath.Join(dir, "log")))(t)
	defer errs.Close()
	cmd := exec.Command("prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0")
	cmd.Stderr = errs
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: install it, as dashboards/check.sh does", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	p := &prometheus{t: t}
	processtest.Until(t, func() error {
		m := prometheusListens.FindStringSubmatch(read(t, errs.Name()))
		if m == nil {
			return fmt.Errorf("prometheus does not listen: %s", read(t, errs.Name()))
		}
		p.url = "http://" + m[1]
		resp, err := http.Get(p.url + "/-/ready") // it answers 503 to all until then
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("prometheus is not ready: %s", resp.Status)
		}
		return nil
	})
	return p
}

func openMetrics(_ *testing.T, admin string) string { return admin }

// asText is a server that passes on scrapes as those of one that knows no OpenMetrics.
func asText(t *testing.T, admin string) string {
	to := testkit.Must(neturl.Parse(admin))(t)
	s := httptest.NewServer(&httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Header.Set("Accept", "text/plain;version=0.0.4")
	}})
	t.Cleanup(s.Close)
	return s.URL
}

// get asks its API.
func (p *prometheus) get(path string, query neturl.Values, into any) error {
	resp, err := http.Get(p.url + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %w", resp.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s", answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}

// values is the labels of each series of an answer that has a number now.
func (p *prometheus) values(expr string) ([]map[string]string, error) {
	var data struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	if err := p.get("/api/v1/query", neturl.Values{"query": {expr}}, &data); err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	var found []map[string]string
	for _, r := range data.Result {
		if v, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64); err == nil && !math.IsNaN(v) {
			found = append(found, r.Metric)
		}
	}
	return found, nil
}

// alerting is which alerts are pending or fire. All rules have to be healthy.
func (p *prometheus) alerting() map[string]bool {
	p.t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct {
				Name, Health, LastError string
				Alerts                  []struct{ State string }
			}
		}
	}
	testkit.OK(p.t, p.get("/api/v1/rules", nil, &data))
	alerting := map[string]bool{}
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			if r.Health != "ok" {
				p.t.Errorf("rule %s is %s: %s", r.Name, r.Health, r.LastError)
			}
			alerting[r.Name] = len(r.Alerts) > 0
		}
	}
	return alerting
}

// waitFor repeats look until it is content.
func waitFor(t *testing.T, most time.Duration, what string, look func() bool) bool {
	t.Helper()
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(time.Second) { // as often as is scraped
		if look() {
			return true
		}
	}
	t.Errorf("after %v: %s", most, what)
	return false
}

// What exercises every metric: upstreams that are well, shaky, gone, strict; pools that are
// full, slow, tight, late by an upstream with limits of its own; tenants with limits, budgets, teams, in shadow; unknown keys.

// The strict upstream takes one request a minute, and asks for a pause till then.
const dashboardPools = `
store: %q
state_dir: state
timeouts: {stream_idle: 1s, drain: 20s}
upstreams:
  good: {base_url: %[2]s, engine: {kind: vllm}}
  shaky: {base_url: %[3]s}
  strict: {base_url: %[4]s}
  gone: {base_url: "http://127.0.0.1:1/v1"}
prices: {chat: {input: 2.5, output: 10}}
pools:
  chat: {models: [chat], upstreams: [{name: good, weight: 3}, {name: shaky}], tpm: 60000, concurrency: 40, expect_nodes: 2, budgets: [{tokens: 5000000, per: day}]}
  slow: {models: [slow], upstream: good, rpm: 6000, tpm: 60000000, expect_nodes: 2}
  late: {models: [late], upstreams: [{name: good, tpm: 60000000}], expect_nodes: 2}
  tight: {models: [tight], upstream: good, tpm: 6000000, concurrency: 1, max_queue: 1, expect_nodes: 2}
  held: {models: [held], upstream: good, concurrency: {max: 4, hold_back: 0.5}, expect_nodes: 2}
  dead: {models: [dead], upstream: gone, tpm: 600000, expect_nodes: 2}
  paused: {models: [paused], upstream: strict, tpm: 600000, expect_nodes: 2}
`

const dashboardTenants = `
tiers:
  pro: {weight: 3, max_wait: 2s}
  free: {weight: 1}
tenants:
  acme: {tier: pro, keys: [%q], tpm: 40000, pools: {chat: {tpm: 30000}}, budgets: [{tokens: 1000000, per: day}], teams: {search: {keys: [%q]}}}
  small: {tier: free, keys: [%q], rpm: 60, concurrency: 2, budgets: [{requests: 20, per: day}]}
  eager: {tier: free, keys: [%q]}
  shade: {tier: free, keys: [%q], rpm: 1, shadow: true}
  night: {tier: pro, keys: [%q], priority: background}
`

// dashboardSite writes the files of a gateway into a folder of their own.
func dashboardSite(t *testing.T, store, good, shaky, strict string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	var keys []any
	for _, name := range []string{"acme", "search", "small", "eager", "shade", "night"} {
		keys = append(keys, tenants.HashKey("key-of-"+name).String())
	}
	processtest.Write(t, dir, map[string]string{
		"llmgov.yaml":      fmt.Sprintf(dashboardPools, store, good, shaky, strict),
		"tenants/all.yaml": fmt.Sprintf(dashboardTenants, keys...),
	})
	return dir
}

// caller calls again and again in one way.
type caller struct {
	tenant, model, path string
	body                string        // further fields
	every               time.Duration // between two calls
	leaves              time.Duration // when it hangs up; 0 = never
	workers             int
}

var dashboardCallers = []caller{
	{tenant: "acme", model: "chat", body: `"stream":true,"max_tokens":200`, every: 200 * time.Millisecond, workers: 2},
	{tenant: "acme", model: "chat", path: "/v1/messages", body: `"max_tokens":50,"system":[{"type":"text","text":"You are of few words.","cache_control":{"type":"ephemeral"}}]`, every: 500 * time.Millisecond, workers: 1},
	{tenant: "search", model: "chat", body: `"max_tokens":300`, every: 50 * time.Millisecond, workers: 3},
	{tenant: "eager", model: "chat", body: `"max_tokens":300`, every: 50 * time.Millisecond, workers: 4},
	{tenant: "small", model: "chat", body: `"max_tokens":20`, every: 100 * time.Millisecond, workers: 1},
	{tenant: "shade", model: "chat", body: `"max_tokens":20`, every: 300 * time.Millisecond, workers: 1},
	{tenant: "nobody", model: "chat", every: 200 * time.Millisecond, workers: 1},
	{tenant: "eager", model: "late", body: `"stream":true,"max_tokens":50,"mock":{"first_token_ms":11000}`, every: time.Second, workers: 2},
	{tenant: "eager", model: "slow", body: `"max_tokens":4000,"mock":{"output_tokens":5}`, every: 300 * time.Millisecond, workers: 1},
	{tenant: "acme", model: "slow", body: `"stream":true,"max_tokens":50,"mock":{"stall_after":3}`, every: 100 * time.Millisecond, workers: 4},
	{tenant: "acme", model: "slow", body: `"stream":true,"max_tokens":50,"mock":{"token_ms":50}`, every: 200 * time.Millisecond, leaves: 200 * time.Millisecond, workers: 1},
	{tenant: "acme", model: "tight", body: `"max_tokens":20,"mock":{"first_token_ms":500}`, every: 50 * time.Millisecond, workers: 3},
	{tenant: "search", model: "tight", body: `"max_tokens":20,"mock":{"first_token_ms":500}`, every: 50 * time.Millisecond, workers: 2},
	{tenant: "night", model: "held", body: `"max_tokens":20,"mock":{"first_token_ms":500}`, every: 50 * time.Millisecond, workers: 6},
	{tenant: "eager", model: "dead", body: `"max_tokens":20`, every: 300 * time.Millisecond, workers: 1},
	{tenant: "eager", model: "paused", body: `"max_tokens":20`, every: 300 * time.Millisecond, workers: 1},
}

// run calls at each of the gateways until ctx ends. What comes of it is in the metrics.
func (c caller) run(ctx context.Context, gateways []*processtest.Process) {
	for ctx.Err() == nil {
		for _, p := range gateways {
			c.call(ctx, p)
		}
		select {
		case <-ctx.Done():
		case <-time.After(c.every):
		}
	}
}

func (c caller) call(ctx context.Context, p *processtest.Process) {
	if c.leaves > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.leaves)
		defer cancel()
	}
	path := c.path
	body := c.body
	if path == "" {
		path = "/v1/chat/completions"
	}
	if body != "" {
		body = "," + body
	}
	text := `{"model":"` + c.model + `","messages":[{"role":"user","content":"How long is a piece of string?"}]` + body + `}`
	_, _ = processtest.Try(ctx, http.MethodPost, p.Data+path, "key-of-"+c.tenant, text)
}
