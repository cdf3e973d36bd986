package doors

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
	"github.com/llmgov/llmgov/tenants"
)

// KeyOf is the key of a tenant.
func KeyOf(tenant string) string { return "sk-" + tenant + "-0123456789abcdef" }

// AdmissionToken is the token of a site's admission listener.
const AdmissionToken = "token-of-admission-0123456789"

// Site is a policy, a model server behind it, and llmgov once a door has started it.
type Site struct {
	Dir    string
	Config string // the config file
	// Admission is the address of the listener for reservations: host:port.
	Admission string
	Model     *mock.Server
	ModelURL  string // without /v1

	// Lasts is how long the reservation of a program that has died is kept.
	Lasts time.Duration

	// Scrape are the metrics of the governor. Doors with a governor of their own set it.
	Scrape func() string

	t       *testing.T
	working atomic.Int64  // calls on which the model server works
	most    atomic.Int64  // the most of them at once
	goesOn  chan struct{} // once closed, answers go on after their first part; nil does not hold them
	process *processtest.Process
}

// firstPart is how many bytes of an answer come before it waits for goesOn.
const firstPart = 4000

// newSite makes a site with one pool, given its limits, and tenants, given theirs.
func newSite(t *testing.T, pool string, limits map[string]string) *Site {
	t.Helper()
	s := &Site{t: t, Dir: t.TempDir(), Lasts: 15 * time.Second, Model: testkit.Must(mock.New(mock.Config{}))(t)}
	model := httptest.NewServer(http.HandlerFunc(s.serveModel))
	t.Cleanup(func() {
		model.CloseClientConnections()
		model.Close()
	})
	s.ModelURL = model.URL
	s.Admission = net.JoinHostPort("127.0.0.1", strconv.Itoa(testkit.Port(t)))
	s.Config = s.write("llmgov.yaml", fmt.Sprintf(`listen: "127.0.0.1:0"
admin: {listen: "127.0.0.1:0"}
node: here
admission: {listen: %q, token: %q}
policies: [tenants.yaml]
upstreams: {mock: {base_url: "%s/v1"}}
pools: {p: {models: ["*"], %s}}
`, s.Admission, AdmissionToken, s.ModelURL, pool))
	policy := "tenants:\n"
	for tenant, limits := range limits {
		policy += fmt.Sprintf("  %s: {keys: [%q], %s}\n", tenant, tenants.HashKey(KeyOf(tenant)), limits)
	}
	s.write("tenants.yaml", policy)
	return s
}

// override lays an override over the policy, before a door is opened.
func (s *Site) override(text string) {
	s.t.Helper()
	testkit.OK(s.t, os.Mkdir(filepath.Join(s.Dir, "state"), 0o700))
	s.write("state/overrides.json", `{"format":1,"overrides":[`+text+`]}`)
	config := testkit.Must(os.ReadFile(s.Config))(s.t)
	s.write("llmgov.yaml", string(config)+"state_dir: "+filepath.Join(s.Dir, "state")+"\n")
}

func (s *Site) write(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.Dir, name)
	testkit.OK(s.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// serveModel counts the calls on which the model server works: until it begins its answer.
func (s *Site) serveModel(w http.ResponseWriter, r *http.Request) {
	n := s.working.Add(1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	done := sync.OnceFunc(func() { s.working.Add(-1) })
	defer done()
	s.Model.ServeHTTP(&answer{ResponseWriter: w, site: s, gone: r.Context().Done(), begins: done}, r)
}

// answer calls begins before its first byte, and waits after its first part for its site.
type answer struct {
	http.ResponseWriter
	site    *Site
	gone    <-chan struct{} // closed if the caller leaves
	begins  func()
	written int
}

func (a *answer) Write(p []byte) (int, error) {
	a.begins()
	a.written += len(p)
	if a.site.goesOn != nil && a.written > firstPart {
		select {
		case <-a.site.goesOn:
		case <-a.gone:
		}
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Serve starts llmgov with the site's config, and returns the address for tenants.
func (s *Site) Serve() (data string) {
	s.t.Helper()
	s.process = processtest.Start(s.t, s.Dir, s.Config)
	s.Scrape = func() string { return s.process.Scrape(s.t) }
	return s.process.Data
}

// Kill kills llmgov, as a lack of memory does.
func (s *Site) Kill() {
	if s.process != nil {
		s.process.Kill()
	}
}

// metric adds up the series of a metric that have all of these labels.
func (s *Site) metric(name string, labels ...string) (sum float64) {
	return processtest.Sum(s.Scrape(), name, labels...)
}

// charged are the tokens that a tenant was charged; of all tenants, if it is "".
func (s *Site) charged(tenant string) int64 {
	total := 0.0
	for _, kind := range []string{`kind="input"`, `kind="output"`} {
		labels := []string{kind}
		if tenant != "" {
			labels = append(labels, `tenant="`+tenant+`"`)
		}
		total += s.metric("llmgov_tokens_total", labels...)
	}
	return int64(total)
}

// leases is how many calls run or wait.
func (s *Site) leases() int { return int(s.metric("llmgov_leases")) }

// atRest waits until no call runs or waits.
func (s *Site) atRest(t *testing.T) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if s.leases() == 0 && s.Model.Stats().Running == 0 {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%d leases are left, and the model server works on %d calls", s.leases(), s.Model.Stats().Running)
		}
	}
}

// proxy is llmgov as the proxy of its callers.
var proxy = Door{
	Name:     "proxy",
	Open:     func(_ *testing.T, s *Site) Post { return postTo(http.DefaultClient, s.Serve()) },
	InFlight: BreaksOff,
	Away:     Fails,
}

// postTo posts calls to a server, with the tenant's key.
func postTo(c *http.Client, base string) Post {
	return func(ctx context.Context, tenant, body string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+KeyOf(tenant))
		req.Header.Set("Content-Type", "application/json")
		return c.Do(req)
	}
}
