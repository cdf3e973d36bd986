package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/goleak"

	_ "github.com/llmgov/llmgov/federation/redis"
	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/embedded"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/redistest"
	"github.com/llmgov/llmgov/tenants"
)

var asked = client.Request{Tenant: "acme", Model: "m", InputTokens: 60, MaxOutput: 40}

func answer(context.Context, *client.Lease) (client.Usage, error) {
	return client.Usage{Input: 50, Output: 5}, nil
}

// site writes a config, more of its settings, and one tenant with its limits.
func site(t *testing.T, settings, acme string) (file string, policy func(acme string)) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		testkit.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	policy = func(acme string) {
		write("tenants.yaml", "tenants: {acme: {"+acme+"}}\n")
	}
	shared := ""
	if strings.HasPrefix(settings, "store:") {
		shared = ", tenant_limits: strict, expect_nodes: 2" // otherwise a new store is given a minute to learn
	}
	write("llmgov.yaml", fmt.Sprintf("policies: [tenants.yaml]\nupstreams: {u: {base_url: \"http://127.0.0.1:1/v1\"}}\npools: {p: {models: [m], tpm: 600000%s}}\n", shared)+settings)
	policy(acme)
	return filepath.Join(dir, "llmgov.yaml"), policy
}

func open(t *testing.T, file string) *embedded.Governor {
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
	governed.Metrics().ServeHTTP(metrics, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if !strings.Contains(metrics.Body.String(), `llmgov_requests_total{`) {
		t.Errorf("no metrics of calls in\n%.2000s", metrics.Body)
	}
	if err := governed.Close(); err != nil {
		t.Error(err)
	}
	if r := refused(governed.Do(t.Context(), asked, answer)); r == nil || r.Code != client.CodeClosed {
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
		governed.Admin().ServeHTTP(w, r)
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
	file, _ := site(t, "store: \""+redistest.New(t).URL()+"\"\nnode: \"${NODE}\"\n", "rpm: 10}, free: {")
	var programs []*embedded.Governor
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

// A program that starts again knows what was used before, and the tenants that were set at run time.
func TestOpen_KeepsState(t *testing.T) {
	file, _ := site(t, "state_dir: "+t.TempDir()+"\n", "budgets: [{tokens: 55, per: day}]")
	first := open(t, file)
	testkit.OK(t, first.Do(t.Context(), asked, answer))
	guest := asked
	guest.Tenant = "guest"
	if r := refused(first.Do(t.Context(), guest, answer)); r == nil {
		t.Error("a tenant that is not set calls")
	}
	w := httptest.NewRecorder()
	first.Admin().ServeHTTP(w, httptest.NewRequest(http.MethodPut, "http://localhost/api/v1/tenants/guest", strings.NewReader(`{"rpm":9,"keys":[]}`)))
	if w.Code != http.StatusCreated {
		t.Errorf("a tenant is set: %d %s", w.Code, w.Body)
	}
	testkit.OK(t, first.Do(t.Context(), guest, answer))
	testkit.OK(t, first.Close())
	second := open(t, file)
	defer second.Close()
	testkit.OK(t, second.Do(t.Context(), guest, answer))
	if r := refused(second.Do(t.Context(), asked, answer)); r == nil || r.Code != "insufficient_quota" && r.Code != "rate_limit_exceeded" {
		t.Errorf("a call beyond the budget after a restart: %+v", r)
	}
}

// A shutdown waits for calls in flight as long as it may, and then ends their contexts; calls that wait are refused. Close does not wait.
func TestShutdown(t *testing.T) {
	for _, c := range []struct {
		ends, patience time.Duration
		late           bool
	}{
		{0, 10 * time.Second, false},
		{3 * time.Second, 10 * time.Second, false},
		{time.Hour, 10 * time.Second, true},
		{time.Hour, 0, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := policy()
			p.Pools[0].Concurrency = 1
			p.Tenants[0].MaxWait = time.Hour
			governed := inCode(t, p)
			lease := testkit.Must(governed.Reserve(t.Context(), asked))(t)
			over := lease.Context()
			waits := make(chan error, 1)
			go func() { waits <- governed.Do(t.Context(), asked, answer) }()
			go func() {
				select {
				case <-time.After(c.ends):
				case <-over.Done():
				}
				lease.Close()
			}()
			synctest.Wait()
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), c.patience)
			defer cancel()
			if err := governed.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) != c.late || !c.late && err != nil {
				t.Errorf("%+v: %v", c, err)
			}
			if took := time.Since(begun); took > min(c.ends, c.patience)+time.Second {
				t.Errorf("%+v: it took %s", c, took)
			}
			if errors.Is(context.Cause(over), client.ErrClosed) != c.late {
				t.Errorf("%+v: the call was ended because of %v", c, context.Cause(over))
			}
			if err := <-waits; c.ends > 0 && !errors.Is(err, client.ErrClosed) {
				t.Errorf("%+v: a call that waits: %v", c, err)
			}
			testkit.OK(t, governed.Close())
			if _, err := governed.Reserve(t.Context(), asked); !errors.Is(err, client.ErrClosed) {
				t.Errorf("%+v: a call that comes: %v", c, err)
			}
		})
	}
}

// A shutdown does not wait for leases that one before it has given up.
func TestShutdown_Again(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		governed := inCode(t, policy())
		left := testkit.Must(governed.Reserve(t.Context(), asked))(t)
		testkit.OK(t, governed.Close())
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := governed.Shutdown(ctx); err != nil || time.Since(begun) > 0 {
			t.Errorf("it took %s: %v", time.Since(begun), err)
		}
		left.Close()
	})
}

// A policy in code needs no files and no upstreams, and can be changed.
func TestNew_Apply(t *testing.T) {
	p := policy()
	governed := inCode(t, p)
	defer governed.Close()
	testkit.OK(t, governed.Do(t.Context(), asked, answer))
	p.Tenants[0].RPM = 1
	testkit.OK(t, governed.Apply(p))
	_ = governed.Do(t.Context(), asked, answer)
	if r := refused(governed.Do(t.Context(), asked, answer)); r == nil || r.Kind != "requests" {
		t.Errorf("the second call, after the limit became one: %+v", r)
	}
	p.Tenants[0].RPM = -1
	if err := governed.Apply(p); err == nil {
		t.Error("a negative limit is in force")
	}
	file, _ := site(t, "", "rpm: 1")
	files := open(t, file)
	defer files.Close()
	if err := files.Apply(policy()); err == nil || !strings.Contains(err.Error(), "config file") {
		t.Errorf("a policy beside the files: %v", err)
	}
}

// Weights in code are those of the files: 4 is 4, and none is 1.
func TestNew_Weights(t *testing.T) {
	p := policy()
	p.Tenants = []embedded.Tenant{{Name: "a", Weight: 4}, {Name: "b", Weight: 0.5}, {Name: "c"}}
	governed := inCode(t, p)
	defer governed.Close()
	w := httptest.NewRecorder()
	governed.Admin().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/api/v1/tenants", http.NoBody))
	for i, want := range []float64{4, 0.5, 1} {
		if got := gjson.Get(w.Body.String(), fmt.Sprintf("tenants.%d.weight", i)).Float(); got != want {
			t.Errorf("tenant %d has weight %v, not %v", i, got, want)
		}
	}
	for _, weight := range []float64{-1, 0.0001, math.NaN(), math.Inf(1), 2e6} {
		p.Tenants[0].Weight = weight
		if err := governed.Apply(p); err == nil || !strings.Contains(err.Error(), "weight") {
			t.Errorf("weight %v: %v", weight, err)
		}
	}
}

// A program that starts finds its pools as after an idle minute: what they may lend at once goes at once.
func TestNew_LendsItsBurst(t *testing.T) {
	for name, c := range map[string]struct {
		pool  embedded.Pool
		alone bool
		most  int // that go at once, of 50
	}{
		"tokens":             {embedded.Pool{Name: "m", TPM: 600_000}, false, 50},
		"fewer tokens":       {embedded.Pool{Name: "m", TPM: 120_000}, false, 17},
		"alone":              {embedded.Pool{Name: "m", TPM: 60_000}, true, 50},
		"requests":           {embedded.Pool{Name: "m", RPM: 60}, false, 10},
		"requests of an own": {embedded.Pool{Name: "m", RPM: 30}, true, 30},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := embedded.Policy{Pools: []embedded.Pool{c.pool}, Tenants: []embedded.Tenant{{Name: "acme", Weight: 4}, {Name: "b", Weight: 2}}}
			if c.alone {
				p.Tenants = p.Tenants[:1]
			}
			governed := inCode(t, p)
			defer governed.Close()
			went := 0
			for range 50 {
				if governed.Do(t.Context(), client.Request{Tenant: "acme", Model: "m", InputTokens: 1000, MaxOutput: 200}, func(context.Context, *client.Lease) (client.Usage, error) {
					return client.Usage{Input: 1000, Output: 200}, nil
				}) == nil {
					went++
				}
			}
			if went > c.most || went < c.most*9/10 {
				t.Errorf("%s: %d went, %d may", name, went, c.most)
			}
		})
	}
}

func policy() embedded.Policy {
	return embedded.Policy{Pools: []embedded.Pool{{Name: "p", Models: []string{"m"}, TPM: 600_000}}, Tenants: []embedded.Tenant{{Name: "acme"}}}
}

func inCode(t *testing.T, p embedded.Policy) *embedded.Governor {
	t.Helper()
	return testkit.Must(embedded.New(t.Context(), p, embedded.Options{Log: slog.New(slog.DiscardHandler), Env: []string{}}))(t)
}
