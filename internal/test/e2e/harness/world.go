package harness

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/ops/tracing"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// World configures a stack; zero fields have defaults.
type World struct {
	Mock       mock.Config
	Pool       tenants.Pool
	Tenants    []tenants.Tenant
	StreamIdle time.Duration // stream_idle
	Prices     []tenants.ModelPrice
	Timezone   string
	Journal    governor.Journal
	// Recorder observes the governor's decisions.
	Recorder governor.Observer
	// Clock is the governor's; nil is the machine's.
	Clock   governor.Clock
	Prompts admission.PromptCounter
	Log     slog.Handler // nil throws it away
	Tracer  *tracing.Tracer
	// Wrap stands between the gateway and the model server.
	Wrap func(http.RoundTripper) http.RoundTripper
	// Upstreams are more upstreams, by name; nil is one that cannot be reached.
	Upstreams map[string]http.Handler
	Tune      func(*tenants.Config)
	Shared    bool // limits are shared with other stacks, by whoever runs that
	// HTTPVersion is the major version of HTTP on both sides of the gateway: 2, or 1 if it is 0.
	HTTPVersion int
}

// protocols are those of HTTPVersion, without TLS.
func (w World) protocols() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(w.HTTPVersion != 2)
	p.SetUnencryptedHTTP2(w.HTTPVersion == 2)
	return &p
}

// Pool is a pool of every model.
func Pool(tpm, rpm, concurrency int64) tenants.Pool {
	p := tenants.DefaultPool("p", "*")
	p.TPM = tpm
	p.RPM = rpm
	p.Concurrency = concurrency
	return p
}

// Tenant has its name as its key.
func Tenant(name string, weight int64) tenants.Tenant {
	return tenants.Tenant{Name: name, Tier: "t", Weight: float64(weight), Keys: []tenants.Key{{Hash: tenants.HashKey(name)}}}
}

// Config has the world's pool, in front of the model server.
func (w World) Config() tenants.Config {
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "mock", BaseURL: "http://mock/v1", APIKey: "upstream-key"}}
	for name := range w.Upstreams {
		cfg.Upstreams = append(cfg.Upstreams, tenants.Upstream{Name: name, BaseURL: "http://" + name + "/v1", APIKey: "key-of-" + name})
	}
	cfg.Pools = []tenants.Pool{w.Pool}
	cfg.Prices = w.Prices
	cfg.Timezone = w.Timezone
	cfg.LeanHTTP = testkit.LeanHTTP()
	if w.StreamIdle > 0 {
		cfg.Timeouts.StreamIdle = w.StreamIdle
	}
	if w.Tune != nil {
		w.Tune(&cfg)
	}
	return cfg
}

func (w World) logHandler() slog.Handler {
	if w.Log == nil {
		return slog.DiscardHandler
	}
	return w.Log
}

// PolicyFromFiles reads a policy file as an operator writes it, beside a config whose pool p has
// these limits. KEY(x) stands for the hash of x.
func PolicyFromFiles(t *testing.T, limits, policy string) *tenants.Snapshot {
	t.Helper()
	for before, rest, ok := strings.Cut(policy, "KEY("); ok; before, rest, ok = strings.Cut(policy, "KEY(") {
		key, after, _ := strings.Cut(rest, ")")
		policy = before + `"` + tenants.HashKey(key).String() + `"` + after
	}
	config := "upstreams: {mock: {base_url: \"http://mock/v1\"}}\ntimezone: UTC\npools: {p: {models: [\"*\"], headroom: 0, burst: 1m, " + limits + "}}\n"
	snap, err := tenants.LoadFS(fstest.MapFS{
		"llmgov.yaml":       {Data: []byte(config)},
		"tenants/acme.yaml": {Data: []byte(policy)},
	}, "llmgov.yaml", tenants.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return snap
}
