package gateway

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/logging"
	"github.com/llmgov/llmgov/internal/testkit/admissiontest"
	"github.com/llmgov/llmgov/tenants"
)

// renewals counts the times that a lease was renewed.
type renewals struct{ n atomic.Int64 }

// Observe implements governor.Observer.
func (r *renewals) Observe(e governor.Event) {
	if e.Kind == governor.EventProgress {
		r.n.Add(1)
	}
}

// The first chunk of a stream renews the lease once, because each renewal takes the lock of the pool.
func TestFirstChunkRenewsLeaseOnce(t *testing.T) {
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "mock", BaseURL: "http://mock/v1"}}
	cfg.Pools = []tenants.Pool{tenants.DefaultPool("bench", "*")}
	snap, err := tenants.Build(cfg, []tenants.Tenant{{Name: "acme", Weight: 1000, Keys: []tenants.Key{{Hash: tenants.HashKey(aKey)}}}})
	if err != nil {
		t.Fatal(err)
	}
	var seen renewals
	ctl := admissiontest.New(t, snap, func(rules *governor.Config) {
		rules.Observer = &seen
		rules.Detailed = true
	})
	chunk := `data: {"choices":[{"index":0,"delta":{"content":"word"}}]}` + "\n\n"
	g, err := New(Options{
		Admission: ctl,
		Log:       slog.New(logging.JSON(io.Discard)), Transport: streams{chunk + chunk + "data: [DONE]\n\n"},
	})
	if err != nil {
		t.Fatal(err)
	}
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
