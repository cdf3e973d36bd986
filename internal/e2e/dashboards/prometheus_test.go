package dashboards

import (
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

	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/processtest"
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
