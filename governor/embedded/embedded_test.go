package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/embedded"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
	"github.com/llmgov/llmgov/tenants"
)

var asked = client.Request{Tenant: "acme", Model: "m", InputTokens: 60, MaxOutput: 40}

func answer(*client.Lease) (client.Usage, error) { return client.Usage{Input: 50, Output: 5}, nil }

// site writes a config, more of its settings, and one tenant with its limits.
func site(t *testing.T, settings, acme string) (file string, policy func(acme string)) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		testkit.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	policy = func(acme string) {
		write("tenants.yaml", fmt.Sprintf("tenants: {acme: {keys: [%q], %s}}\n", tenants.HashKey("sk-acme"), acme))
	}
	shared := ""
	if strings.HasPrefix(settings, "store:") {
		shared = ", tenant_limits: strict, expect_nodes: 2" // otherwise a new store is given a minute to learn
	}
	write("llmgov.yaml", fmt.Sprintf("policies: [tenants.yaml]\nupstreams: {u: {base_url: \"http://127.0.0.1:1/v1\"}}\npools: {p: {models: [m], tpm: 600000%s}}\n", shared)+settings)
	policy(acme)
	return filepath.Join(dir, "llmgov.yaml"), policy
}

func open(t *testing.T, file string) *client.Client {
	t.Helper()
	governed := testkit.Must(embedded.Open(t.Context(), file, embedded.Options{Log: slog.New(slog.DiscardHandler), Env: []string{}}))(t)
	return governed
}

func refused(err error) *client.Refusal {
	r, _ := errors.AsType[*client.Refusal](err)
	return r
}

// The program of a config file has its limits, follows its changes, and leaves nothing behind when it closes.
func TestOpen_FollowsFiles(t *testing.T) {
	defer goleak.VerifyNone(t)
	file, policy := site(t, "", "rpm: 1")
	governed := open(t, file)
	testkit.OK(t, governed.Do(t.Context(), asked, answer))
	if r := refused(governed.Do(t.Context(), asked, answer)); r == nil || r.Kind != "requests" {
		t.Errorf("the second call of one a minute: %+v", r)
	}
	policy("rpm: 1000")
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := governed.Do(t.Context(), asked, answer)
		if err == nil {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("the new policy is not in force: %v", err)
		}
	}
	metrics := httptest.NewRecorder()
	embedded.Metrics(governed).ServeHTTP(metrics, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if !strings.Contains(metrics.Body.String(), `llmgov_requests_total{`) {
		t.Errorf("no metrics of calls in\n%.2000s", metrics.Body)
	}
	if err := governed.Close(); err != nil {
		t.Error(err)
	}
	if r := refused(governed.Do(t.Context(), asked, answer)); r == nil || r.Code != "draining" {
		t.Errorf("a call after the end: %+v", r)
	}
}

// The admin side of a program explains its refusals, and shows who calls.
func TestAdmin_Explains(t *testing.T) {
	defer goleak.VerifyNone(t)
	file, _ := site(t, "", "rpm: 1")
	governed := open(t, file)
	defer governed.Close()
	request := asked
	request.ID = "req-2"
	for range 2 {
		_ = governed.Do(t.Context(), request, answer)
	}
	for path, want := range map[string]string{
		"/api/v1/explain?request=req-2":       `"code": "rate_limit_exceeded"`,
		"/api/v1/explain?tenant=acme&model=m": `"requests"`,
		"/api/v1/tenants":                     `"acme"`,
		"/metrics":                            `llmgov_requests_total{outcome="refused"`,
		"/livez":                              "ok",
		"/readyz":                             "ok",
		"/console/":                           "<html",
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, http.NoBody)
		embedded.Admin(governed).ServeHTTP(w, r)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %.500s", path, w.Code, w.Body)
		}
	}
}

// Files that are wrong are no governor, and the error says where.
func TestOpen_BadFiles(t *testing.T) {
	file, _ := site(t, "", "rmp: 1")
	_, err := embedded.Open(t.Context(), file, embedded.Options{Env: []string{}})
	if _, ok := errors.AsType[tenants.Problems](err); !ok || !strings.Contains(err.Error(), "tenants.yaml:1:") {
		t.Errorf("opened with %v", err)
	}
	file, _ = site(t, "store: \"redis://localhost:none\"\n", "rpm: 1")
	if _, err := embedded.Open(t.Context(), file, embedded.Options{Env: []string{}}); err == nil {
		t.Error("opened with a store that is none")
	}
}

// Two programs with one store share a tenant's limit, by the config alone.
func TestOpen_SharesLimits(t *testing.T) {
	file, _ := site(t, "store: \""+redistest.New(t).URL()+"\"\nnode: \"${NODE}\"\n", "rpm: 10}, free: {keys: ["+tenants.HashKey("sk-free").String()+"]")
	var programs []*client.Client
	for _, node := range []string{"a", "b"} {
		governed := testkit.Must(embedded.Open(t.Context(), file, embedded.Options{Log: slog.New(slog.DiscardHandler), Env: []string{"NODE=" + node}}))(t)
		defer governed.Close()
		programs = append(programs, governed)
	}
	free := asked
	free.Tenant = "free"
	for _, governed := range programs { // until the store grants to both
		redistest.Eventually(t, "the store grants", func() bool { return governed.Do(t.Context(), free, answer) == nil })
	}
	admitted := 0
	for range 15 {
		for _, governed := range programs {
			if governed.Do(t.Context(), asked, answer) == nil {
				admitted++
			}
		}
	}
	if admitted > 10 || admitted < 5 { // a store on a busy machine may miss a few of its answers
		t.Errorf("%d calls of 10 a minute were admitted", admitted)
	}
}

// A program that starts again knows what was used before.
func TestOpen_KeepsState(t *testing.T) {
	file, _ := site(t, "state_dir: "+t.TempDir()+"\n", "budgets: [{tokens: 55, per: day}]")
	first := open(t, file)
	testkit.OK(t, first.Do(t.Context(), asked, answer))
	testkit.OK(t, first.Close())
	second := open(t, file)
	defer second.Close()
	if r := refused(second.Do(t.Context(), asked, answer)); r == nil || r.Code != "insufficient_quota" && r.Code != "rate_limit_exceeded" {
		t.Errorf("a call beyond the budget after a restart: %+v", r)
	}
}

// Close waits for a call that runs, and ends it when its time is up.
func TestClose_WaitsForCalls(t *testing.T) {
	file, _ := site(t, "timeouts: {drain: 20ms}\n", "rpm: 10")
	governed := open(t, file)
	lease := testkit.Must(governed.Reserve(t.Context(), asked))(t)
	ctx := lease.Context()
	closed := make(chan error)
	go func() { closed <- governed.Close() }()
	<-ctx.Done()
	if _, ok := errors.AsType[*client.Refusal](context.Cause(ctx)); !ok {
		t.Errorf("the call was ended because of %v", context.Cause(ctx))
	}
	lease.Close()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// A policy in code needs no files and no upstreams, and can be changed.
func TestNew_Apply(t *testing.T) {
	cfg, acme := inCode()
	governed := testkit.Must(embedded.New(t.Context(), cfg, acme, embedded.Options{Log: slog.New(slog.DiscardHandler)}))(t)
	defer governed.Close()
	testkit.OK(t, governed.Do(t.Context(), asked, answer))
	acme[0].RPM = 1
	testkit.OK(t, embedded.Apply(governed, cfg, acme))
	_ = governed.Do(t.Context(), asked, answer)
	if r := refused(governed.Do(t.Context(), asked, answer)); r == nil || r.Kind != "requests" {
		t.Errorf("the second call, after the limit became one: %+v", r)
	}
	acme[0].RPM = -1
	if err := embedded.Apply(governed, cfg, acme); err == nil {
		t.Error("a negative limit is in force")
	}
}

func inCode() (tenants.Config, []tenants.Tenant) {
	cfg := tenants.DefaultConfig()
	pool := tenants.DefaultPool("p")
	pool.TPM = 600_000
	pool.Models = []string{"m"}
	cfg.Pools = []tenants.Pool{pool}
	return cfg, []tenants.Tenant{{Name: "acme", Models: []string{"m"}, Routes: tenants.RouteInference}}
}
