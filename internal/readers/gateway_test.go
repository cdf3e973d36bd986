package readers

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/gateway"
	"github.com/llmgov/llmgov/internal/objects"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/admissiontest"
	"github.com/llmgov/llmgov/tenants"
)

// most is the tenant's max_output_tokens, and granted its one model.
const (
	most    = 100
	granted = "ok"
)

// front is a gateway with a tenant that may use one model, and what it forwarded last.
type front struct {
	gateway *gateway.Gateway
	sent    *forwarded
}

// forwarded is a body as the upstream gets it.
type forwarded struct {
	kind string
	body []byte
}

func newFront(t testing.TB) *front {
	t.Helper()
	f := &front{}
	owned := testkit.Must(objects.Open("", slog.New(slog.DiscardHandler)))(t)
	for _, id := range seen {
		testkit.OK(t, owned.Own(t.Context(), objects.Key{Upstream: "up", ID: id}, objects.Entry{Kind: objects.File, Owner: "acme"}))
	}
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "up", BaseURL: "http://up/v1"}}
	pool := tenants.DefaultPool("main", granted, "bad")
	pool.Upstreams = []tenants.PoolUpstream{{Name: "up"}}
	cfg.Pools = []tenants.Pool{pool}
	tenant := tenants.Tenant{
		Name: "acme", Weight: 1, Keys: []tenants.Key{{Hash: tenants.HashKey("key")}},
		Models: []string{granted}, DefaultPool: "main", MaxOutputTokens: most, Routes: tenants.RouteInference | tenants.RouteFiles,
	}
	f.gateway = testkit.Must(gateway.New(gateway.Options{
		Admission: admissiontest.Build(t, cfg, tenant), Log: slog.New(slog.DiscardHandler), Transport: f, Objects: owned,
	}))(t)
	return f
}

// RoundTrip is the upstream.
func (f *front) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	f.sent = &forwarded{r.Header.Get("Content-Type"), body}
	return &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(`{"id":"file-1","object":"file","usage":{"input_tokens":1,"output_tokens":1,"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)),
	}, nil
}

// send sends a body through the gateway, and returns what is forwarded, or nil.
func (f *front) send(path, kind string, body []byte) *forwarded {
	f.sent = nil
	r := httptest.NewRequest(http.MethodPost, "/v1"+path, bytes.NewReader(body))
	r.Header.Set("Authorization", "Bearer key")
	r.Header.Set("Content-Type", kind)
	f.gateway.ServeHTTP(httptest.NewRecorder(), r)
	return f.sent
}
