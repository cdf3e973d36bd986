package admission

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/lab/plan"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// perTenantWorld is a pool of so many slots for tenants heavy, b and c.
func perTenantWorld(slots int64, perTenant bool) harness.World {
	w := harness.World{Pool: harness.Pool(0, 0, slots), StreamIdle: 5 * time.Second}
	w.Pool.MaxQueue = 1000
	w.Pool.PerTenant = perTenant
	for _, name := range []string{"heavy", "b", "c"} {
		tenant := harness.Tenant(name, 1)
		tenant.MaxWait = 10 * time.Minute
		w.Tenants = append(w.Tenants, tenant)
	}
	return w
}

// TestPerTenant_Outcomes: a call that the upstream could not answer lowers how many its tenant may run, and nobody else's number; an error of
// the caller's, a refusal, a caller that leaves and an upstream that cannot be reached lower nothing.
func TestPerTenant_Outcomes(t *testing.T) {
	spoil := func(rt http.RoundTripper) http.RoundTripper {
		again := false
		return harness.RoundTripperFunc(func(r *http.Request) (*http.Response, error) {
			switch agent := r.Header.Get("User-Agent"); {
			case agent == "down":
				r.URL.Host = "nowhere"
			case agent == "pauses" && !again:
				again = true
				w := httptest.NewRecorder()
				harness.Status(http.StatusServiceUnavailable, "Retry-After", "1")(w, r)
				return w.Result(), nil
			}
			return rt.RoundTrip(r)
		})
	}
	for _, c := range []struct {
		name, mock string
		agent      string
		patience   time.Duration
		lowers     bool
	}{
		{name: "500", mock: `{"error_status":500}`, lowers: true},
		{name: "503", mock: `{"error_status":503}`, lowers: true},
		{name: "529", mock: `{"error_status":529}`, lowers: true},
		{name: "508", mock: `{"error_status":508}`, lowers: true},
		{name: "silent", mock: `{"output_tokens":20,"stall_after":5}`, lowers: true},
		{name: "broken off", mock: `{"output_tokens":20,"hangup_after":5}`, lowers: true},
		{name: "says that it failed", mock: `{"output_tokens":20,"error_after":5}`, lowers: true},
		{name: "503, served after a pause", mock: `{"output_tokens":20}`, agent: "pauses", lowers: true},
		{name: "400", mock: `{"error_status":400}`},
		{name: "404", mock: `{"error_status":404}`},
		{name: "429", mock: `{"error_status":429}`},
		{name: "caller left", mock: `{"output_tokens":2000}`, patience: time.Second},
		{name: "not reached", mock: `{}`, agent: "down"},
		{name: "served", mock: `{"output_tokens":20}`},
	} {
		testkit.Virtual(t, c.name, func(t *testing.T) {
			w := perTenantWorld(20, true)
			w.Mock = mock.Config{TokensPerSecond: 20}
			w.Wrap = spoil
			s := harness.New(t, w)
			ctx := t.Context()
			if c.patience > 0 {
				timeout, stop := context.WithTimeout(ctx, c.patience)
				defer stop()
				ctx = timeout
			}
			s.Call(ctx, "heavy", harness.Chat(true, 2000, `,"mock":`+c.mock), "User-Agent", c.agent)
			time.Sleep(time.Second)
			for tenant, lowered := range map[string]bool{"heavy": c.lowers, "b": false} {
				want := int64(20)
				if lowered {
					want = 1
					if c.agent == "pauses" { // it has succeeded since
						want = 2
					}
				}
				if got := s.Governor.Standing(tenant, "p").Concurrent.Limit; got != want {
					t.Errorf("%s may run %d calls, want %d", tenant, got, want)
				}
			}
		})
	}
}

// TestPerTenant_Told: a tenant that may run fewer calls is told so, by the refusal and its headers, and so is who asks.
func TestPerTenant_Told(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := perTenantWorld(20, true)
		w.Mock = mock.Config{TokensPerSecond: 20}
		w.Tenants[0].MaxWait = 0
		s := harness.New(t, w)
		s.Call(t.Context(), "heavy", harness.Chat(true, 10, `,"mock":{"error_status":500}`))
		var group sync.WaitGroup
		group.Go(func() { s.Call(t.Context(), "heavy", harness.Chat(true, 2000, `,"mock":{"output_tokens":200}`)) })
		synctest.Wait()
		a := s.Call(t.Context(), "heavy", harness.Chat(true, 10, ""))
		e := harness.ReadError(a.Body)
		if a.Status != http.StatusTooManyRequests || !strings.Contains(e.Message, "Recent calls of tenant heavy failed at the upstream of pool p") {
			t.Errorf("status %d: %s", a.Status, a.Body)
		}
		if limit := a.Header.Get("X-Ratelimit-Limit-Concurrent"); limit != "1" || a.Header.Get("Retry-After") == "" {
			t.Errorf("the headers are %v", a.Header)
		}
		if a = s.Call(t.Context(), "b", harness.Chat(true, 10, "")); a.Status != http.StatusOK {
			t.Errorf("beside it, another tenant gets %d: %s", a.Status, a.Body)
		}
		group.Wait()
	})
}

// smallServer batches continuously. Its memory has room for one prompt of 100,000 tokens and some dozens of short calls; with two such
// prompts streams are interrupted, and given up when they stay silent.
type smallServer struct {
	stack  *harness.Stack
	log    *harness.Record
	served map[string]*atomic.Int64
}

func newSmallServer(t *testing.T, perTenant bool) *smallServer {
	w := perTenantWorld(24, perTenant)
	w.Mock = mock.Config{FirstToken: 200 * time.Millisecond, TokensPerSecond: 20, Batch: 16, KVCache: 130_000}
	s := &smallServer{log: w.Record(t), served: map[string]*atomic.Int64{}}
	for _, tenant := range w.Tenants {
		s.served[tenant.Name] = &atomic.Int64{}
	}
	s.stack = harness.New(t, w)
	return s
}

// caller asks again and again until ctx ends.
func (s *smallServer) caller(ctx context.Context, tenant, prompt string, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 19))
	for ctx.Err() == nil {
		body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],"stream":true,"max_tokens":400,"mock":{"output_tokens":%d}}`, prompt, 20+r.IntN(40))
		a := s.stack.Call(s.stack.T.Context(), tenant, body)
		if a.Status == http.StatusOK && strings.Contains(a.Body, "[DONE]") {
			s.served[tenant].Add(1)
			continue
		}
		time.Sleep(time.Second)
	}
}

// run has the short calls of b and c, and so many long prompts of the heavy tenant at once.
func (s *smallServer) run(heavy int, lasts time.Duration) {
	ctx, stop := context.WithTimeout(s.stack.T.Context(), lasts)
	defer stop()
	long := strings.Repeat("word ", 100_000)
	var group sync.WaitGroup
	for i := range 6 {
		group.Go(func() { s.caller(ctx, "b", "How long is a piece of string?", uint64(i)) })
		group.Go(func() { s.caller(ctx, "c", "How long is a piece of string?", uint64(i+10)) })
	}
	for i := range heavy {
		group.Go(func() { s.caller(ctx, "heavy", long, uint64(i+20)) })
	}
	group.Wait()
}

// TestPerTenant_LongPromptsOnASmallServer: one tenant's long prompts take most of what others get done at a small server. With per_tenant
// the others keep most of it, and the tenant itself gets no less done. The record decides the calls again as they were.
func TestPerTenant_LongPromptsOnASmallServer(t *testing.T) {
	testkit.Long(t, "simulates minutes of a whole stack")
	var record plan.Log
	var snap *tenants.Snapshot
	outcome := func(heavy int, perTenant bool) (long, short int64) {
		synctest.Test(t, func(t *testing.T) {
			s := newSmallServer(t, perTenant)
			s.run(heavy, 5*time.Minute)
			snap = s.stack.Gateway.Snapshot()
			record = s.log.End(s.stack)
			long = s.served["heavy"].Load()
			short = s.served["b"].Load() + s.served["c"].Load()
		})
		t.Logf("with %d long prompts at once, per_tenant: %v: %d long and %d short calls are served", heavy, perTenant, long, short)
		return long, short
	}
	_, alone := outcome(0, false)
	longOff, off := outcome(8, false)
	longOn, on := outcome(8, true)
	if off > alone*45/100 {
		t.Errorf("without per_tenant %d of %d short calls are served: the test shows nothing", off, alone)
	}
	if on < alone*65/100 {
		t.Errorf("with per_tenant %d of %d short calls are served", on, alone)
	}
	if longOn < longOff*9/10 {
		t.Errorf("with per_tenant %d long calls are served, %d without", longOn, longOff)
	}
	if again := harness.DecidedAgain(t, record, snap); !again.Exact || len(again.Flips) > 0 {
		t.Errorf("of %d calls %d come out otherwise when they are decided again", again.Calls, again.Differ)
	}
}
