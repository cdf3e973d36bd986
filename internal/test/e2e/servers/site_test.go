package servers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/run/engine"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
	"github.com/llmgov/llmgov/tenants"
)

// site is llmgov in front of a server.
type site struct {
	t      *testing.T
	server *running
	gov    *processtest.Process
	before load // of the server, when the site was made
}

func keyOf(tenant string) string { return "sk-" + tenant + "-0123456789abcdef" }

// newSite runs llmgov with one pool, given its limits, and tenants with weights.
func newSite(t *testing.T, r *running, pool string, weights map[string]int) *site {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		testkit.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	policy := "tenants:\n"
	for tenant, weight := range weights {
		policy += fmt.Sprintf("  %s: {keys: [%q], weight: %d, max_wait: 120s}\n", tenant, tenants.HashKey(keyOf(tenant)), weight)
	}
	write("tenants.yaml", policy)
	config := write("llmgov.yaml", fmt.Sprintf(`listen: "127.0.0.1:0"
admin: {listen: "127.0.0.1:0"}
policies: [tenants.yaml]
upstreams: {server: {base_url: "%s/v1"}}
pools: {p: {models: ["*"], accounting: production, %s}}
`, r.url, pool))
	s := &site{t: t, server: r, gov: processtest.Start(t, dir, config)}
	s.atRest()
	s.before = r.load(t)
	return s
}

// chat is the body of a call for exactly so many tokens.
func chat(output int, stream bool, more string) string {
	return fmt.Sprintf(`{"model":"m","max_tokens":%d,"ignore_eos":true,"stream":%t%s,"messages":[{"role":"user","content":"How long is a piece of string?"}]}`, output, stream, more)
}

const askForUsage = `,"stream_options":{"include_usage":true}`

// answer is the outcome of a call.
type answer struct {
	status int
	body   string
	err    error
}

// open sends a call, whose answer the caller closes.
func (s *site) open(ctx context.Context, path, tenant, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.gov.Data+"/v1/"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+keyOf(tenant))
	req.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(req)
}

// call sends a call and reads its answer.
func (s *site) call(ctx context.Context, path, tenant, body string) answer {
	resp, err := s.open(ctx, path, tenant, body)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, body: string(text), err: err}
}

// charged are the tokens of a kind that llmgov charged.
func (s *site) charged(kind string) int64 {
	return int64(processtest.Sum(s.gov.Scrape(s.t), "llmgov_tokens_total", `kind="`+kind+`"`))
}

// worked is what the server worked since the site was made.
func (s *site) worked() (prompt, generated int64) {
	now := s.server.load(s.t)
	return now.prompt - s.before.prompt, now.generated - s.before.generated
}

// leases is how many calls run or wait in llmgov.
func (s *site) leases() int { return int(processtest.Sum(s.gov.Scrape(s.t), "llmgov_leases")) }

// atRest waits until nothing runs or waits, in llmgov and in the server.
func (s *site) atRest() {
	s.t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		now := s.server.load(s.t)
		if s.leases() == 0 && now.running == 0 && now.waiting == 0 {
			return
		}
		if time.Now().After(until) {
			s.t.Fatalf("%d leases are left, and the server runs %d calls and lets %d wait", s.leases(), now.running, now.waiting)
		}
	}
}

const (
	// slots is how many calls a server of the tests runs at once.
	slots = 8
	// contextTokens is how long a prompt and its answer may be together.
	contextTokens = 1024
	// startTime is the longest that a server may take until it is ready.
	startTime = 4 * time.Minute
)

// server is a program that serves models.
type server struct {
	name    string // in the table
	program string // the environment variable with the program
	model   string // the environment variable with the model
	command func(program, model string, port int) *exec.Cmd
	gauges  gauges
	engine  string             // its kind in the config, for its metrics
	refuses map[string]refusal // what it answers to wrong calls, by their names
}

// gauges are the names of a server's metrics.
type gauges struct {
	running   string
	waiting   string
	prompt    string
	cached    string // prompts found in its cache, if prompt leaves them out
	generated string
}

// refusal is an answer to a wrong call.
type refusal struct {
	status int
	kind   string // error.type of its body
}

// running is a server that runs.
type running struct {
	*server
	url     string // without /v1
	process *exec.Cmd
	ended   chan struct{} // closed when it has ended
}

// kill kills the server and its own processes, as a lack of memory does.
func (r *running) kill() {
	_ = syscall.Kill(-r.process.Process.Pid, syscall.SIGKILL)
	<-r.ended
}

// start runs the server until the test ends, or skips the test where it is not installed.
func (s *server) start(t *testing.T) *running {
	t.Helper()
	program := os.Getenv(s.program)
	if program == "" {
		testkit.Elsewhere(t, s.name, "test-servers")
	}
	port := testkit.Port(t)
	r := &running{
		server:  s,
		url:     fmt.Sprintf("http://127.0.0.1:%d", port),
		process: s.command(program, os.Getenv(s.model), port),
		ended:   make(chan struct{}),
	}
	r.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log := &bytes.Buffer{}
	r.process.Stdout = log
	r.process.Stderr = log
	testkit.OK(t, r.process.Start())
	go func() {
		_ = r.process.Wait()
		close(r.ended)
	}()
	t.Cleanup(func() {
		_ = r.process.Process.Signal(os.Interrupt) // it ends its own children
		select {
		case <-r.ended:
		case <-time.After(20 * time.Second):
			r.kill()
		}
		if t.Failed() {
			t.Logf("%s: %s", s.name, log.Bytes()[max(0, log.Len()-4000):])
		}
	})
	r.waitUntilReady(t)
	return r
}

func (r *running) waitUntilReady(t *testing.T) {
	t.Helper()
	for until := time.Now().Add(startTime); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
		select {
		case <-r.ended:
			t.Fatalf("%s has ended", r.name)
		default:
		}
		resp, err := http.Get(r.url + "/health")
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
	t.Fatalf("%s is not ready after %s", r.name, startTime)
}

// load is what a server says of itself.
type load struct {
	running   int
	waiting   int
	prompt    int64
	generated int64
}

// load reads the server's metrics.
func (r *running) load(t *testing.T) load {
	t.Helper()
	text := processtest.Ask(t, http.MethodGet, r.url+"/metrics", "", "").Body
	prompt := processtest.Sum(text, r.gauges.prompt)
	if r.gauges.cached != "" {
		prompt += processtest.Sum(text, r.gauges.cached)
	}
	said, err := engine.Read(strings.NewReader(text), engine.Kinds[r.engine])
	if err != nil || float64(said.Running) != processtest.Sum(text, r.gauges.running) || float64(said.Waiting) != processtest.Sum(text, r.gauges.waiting) {
		t.Errorf("%s: its load reads as %+v, %v", r.name, said, err)
	}
	return load{
		running:   int(processtest.Sum(text, r.gauges.running)),
		waiting:   int(processtest.Sum(text, r.gauges.waiting)),
		prompt:    int64(prompt),
		generated: int64(processtest.Sum(text, r.gauges.generated)),
	}
}
