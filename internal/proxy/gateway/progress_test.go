package gateway

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/lib/affinity"
	"github.com/llmgov/llmgov/internal/ops/logging"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/admissiontest"
	"github.com/llmgov/llmgov/tenants"
)

// renewals counts the times that a lease was renewed.
type renewals struct{ n atomic.Int64 }

func (r *renewals) Observe(e governor.Event) {
	if e.Kind == governor.EventProgress {
		r.n.Add(1)
	}
}

// The first chunk of a stream renews the lease once, because each renewal takes the lock of the governor.
func TestFirstChunkRenewsLeaseOnce(t *testing.T) {
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "mock", BaseURL: "http://mock/v1"}}
	cfg.Pools = []tenants.Pool{tenants.DefaultPool("bench", "*")}
	snap := testkit.Must(tenants.Build(cfg, []tenants.Tenant{{Name: "acme", Weight: 1, Keys: []tenants.Key{{Hash: tenants.HashKey(aKey)}}}}))(t)
	var seen renewals
	ctl := admissiontest.New(t, snap, func(rules *governor.Config) {
		rules.Observer = &seen
		rules.Detailed = true
	})
	chunk := `data: {"choices":[{"index":0,"delta":{"content":"word"}}]}` + "\n\n"
	g := testkit.Must(New(Options{
		Admission: ctl,
		Log:       slog.New(logging.JSON(io.Discard)), Transport: streams{chunk + chunk + "data: [DONE]\n\n"},
	}))(t)
	request := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"model":"m","stream":true,"messages":[]}`))
	request.Header.Set("Authorization", "Bearer "+aKey)
	client := httptest.NewRecorder()
	g.ServeHTTP(client, request)
	if client.Code != http.StatusOK {
		t.Fatalf("status %d: %s", client.Code, client.Body)
	}
	if n := seen.n.Load(); n != 1 {
		t.Errorf("the lease was renewed %d times, want 1", n)
	}
}

// A call that is refused because its upstreams pause is in flight at none of them. Otherwise the one that answers with
// errors would count calls for ever, and get no conversation any more.
func TestPausedCallsAreNotInFlight(t *testing.T) {
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "fails", BaseURL: "http://fails/v1"}, {Name: "pauses", BaseURL: "http://pauses/v1"}}
	cfg.Pools = []tenants.Pool{tenants.DefaultPool("both", "*")}
	cfg.Pools[0].Upstreams = []tenants.PoolUpstream{{Name: "fails", Weight: 1}, {Name: "pauses", Weight: 1}}
	ctl := admissiontest.Build(t, cfg, tenants.Tenant{Name: "acme", Weight: 1, Keys: []tenants.Key{{Hash: tenants.HashKey(aKey)}}})
	g := testkit.Must(New(Options{Admission: ctl, Log: slog.New(logging.JSON(io.Discard)), Transport: &answering{}}))(t)
	pool, _ := g.world.Load().poolNamed("both")
	fails := pool.set.Members[0]
	pauses := pool.set.Members[1]
	now := time.Now()
	for range 5 {
		fails.Report(now, upstreams.Result{Outcome: upstreams.Failed, Began: now})
	}
	pauses.Report(now, upstreams.Result{Outcome: upstreams.Busy, Began: now, Retry: time.Minute})
	for range 20 {
		request := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"model":"m","messages":[]}`))
		request.Header.Set("Authorization", "Bearer "+aKey)
		client := httptest.NewRecorder()
		g.ServeHTTP(client, request)
		if client.Code != http.StatusTooManyRequests {
			t.Fatalf("status %d: %s", client.Code, client.Body)
		}
	}
	later := now.Add(time.Hour)
	sent := map[*upstreams.Member]int{}
	for id := range uint64(100) {
		choice := pool.set.Choose(later, pool.set.All(), upstreams.Scope{}, "acme", affinity.ConversationOf("acme", id))
		m := pool.set.Members[choice.Index]
		m.Report(later, upstreams.Result{Outcome: upstreams.Served, Began: later, Probe: choice.Probe})
		m.Leave()
		sent[m]++
	}
	if sent[fails] < 30 || sent[pauses] < 30 {
		t.Errorf("of 100 conversations, %d and %d go to each of two upstreams", sent[fails], sent[pauses])
	}
}
