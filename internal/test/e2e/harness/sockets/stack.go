package sockets

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/ops/admin"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/proxy/gateway"
	"github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

const (
	// UpstreamKey is the provider's key, which no answer and no log may show.
	UpstreamKey = "sk-upstream-must-not-leak"
	// KeyPrefix begins every tenant's key, which no log and no upstream may see.
	KeyPrefix = "sk-tenant-must-not-leak-"
	// Patience is for what an idle machine does at once: a busy one may take a hundred times as long.
	Patience = time.Minute
)

// World configures a Stack; zero fields have defaults.
type World struct {
	Mock     mock.Config
	Upstream http.Handler  // instead of the mock
	MockInto **mock.Server // where such an upstream finds the mock
	BaseURL  string        // instead of the upstream's
	TLS      *tls.Config   // towards upstreams
	Pool     tenants.Pool
	Tenants  []tenants.Tenant
	Config   func(*tenants.Config)
	Objects  *objects.Store
	Prompts  admission.PromptCounter
}

// Stack is client → gateway → upstream, on real sockets.
type Stack struct {
	T        *testing.T
	Mock     *mock.Server
	Seen     *Recorder
	Governor *governor.Governor
	Gateway  *gateway.Gateway
	Metrics  *telemetry.Metrics
	Upstream *httptest.Server
	Data     *Front
	admin    *httptest.Server
	Client   *http.Client // bare, for requests that no SDK would send
}

// Key is a tenant's key.
func Key(tenant string) string { return KeyPrefix + tenant }

// Tenant has limits on each axis, so that a leak shows.
func Tenant(name string, edit func(*tenants.Tenant)) tenants.Tenant {
	t := tenants.Tenant{
		Name: name, Tier: "t", Weight: 1, Keys: []tenants.Key{{Hash: tenants.HashKey(Key(name))}},
		Limits: terms.Limits{TPM: 1_000_000, RPM: 1000, Concurrency: 64},
	}
	if edit != nil {
		edit(&t)
	}
	return t
}

// Pool has limits that no test reaches unless edit lowers them.
func Pool(edit func(*tenants.Pool)) tenants.Pool {
	p := tenants.DefaultPool("main", "*", "gpt-4o", "text-embedding-3-small")
	p.TPM = 2_000_000
	p.RPM = 10_000
	p.Concurrency = 100
	// All of the minute at once, because pacing is not the subject of these tests.
	p.Burst = time.Minute
	p.BurstSet = true
	if edit != nil {
		edit(&p)
	}
	return p
}

// New starts a stack. When the test ends it must be idle, and its log must show no key.
func New(t *testing.T, w World) *Stack {
	t.Helper()
	s := &Stack{T: t, Metrics: telemetry.New()}
	var err error
	s.Mock, err = mock.New(w.Mock)
	if err != nil {
		t.Fatal(err)
	}
	if w.MockInto != nil {
		*w.MockInto = s.Mock
	}
	if w.Upstream == nil {
		w.Upstream = s.Mock
	}
	s.Seen = &Recorder{next: w.Upstream}
	s.Upstream = Serve(t, s.Seen)
	if w.BaseURL == "" {
		w.BaseURL = s.Upstream.URL + "/v1"
	}
	if w.Pool.Name == "" {
		w.Pool = Pool(nil)
	}
	if w.Tenants == nil {
		w.Tenants = []tenants.Tenant{Tenant("acme", nil)}
	}
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "up", BaseURL: w.BaseURL, APIKey: UpstreamKey}}
	cfg.Pools = []tenants.Pool{w.Pool}
	if w.Config != nil {
		w.Config(&cfg)
	}
	transport := gateway.NewTransport(testkit.LeanHTTP())
	transport.TLSClientConfig = w.TLS
	t.Cleanup(transport.CloseIdleConnections)
	log := &logBuffer{}
	gw, gov := harness.Build(t, cfg, harness.World{Tenants: w.Tenants, Prompts: w.Prompts}, s.Metrics, gateway.Options{Log: slog.New(slog.NewJSONHandler(log, nil)), Transport: transport, Objects: w.Objects})
	s.Governor = gov
	s.Gateway = gw
	s.Data = ServeCalls(t, gw)
	s.admin = Serve(t, admin.New(gw, admin.Options{Governor: gov, Log: slog.New(slog.NewJSONHandler(log, nil)), Metrics: s.Metrics.Handler(), Drain: func() {}}))
	s.Client = NewClient(t, nil)
	t.Cleanup(func() { // runs first: all servers are still there
		s.WaitIdle()
		log.check(t)
	})
	return s
}

// Serve starts a server on a real socket; it ends with the test.
func Serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

// NewClient is an HTTP client whose connections end with the test.
func NewClient(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) *http.Client {
	t.Helper()
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	var rt http.RoundTripper = transport
	if wrap != nil {
		rt = wrap(rt)
	}
	return &http.Client{Transport: rt}
}

// logBuffer keeps the gateway's log, which must not show a key.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBuffer) check(t *testing.T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, secret := range []string{UpstreamKey, KeyPrefix} {
		if strings.Contains(l.text.String(), secret) {
			t.Errorf("the log shows %s…", secret)
		}
	}
	if strings.Contains(l.text.String(), `"msg":"panic"`) {
		t.Errorf("the gateway panicked:\n%s", l.text.String())
	}
}

func Granted(t *tenants.Tenant) { t.Routes = allRoutes }

const allRoutes = tenants.RouteInference | tenants.RouteModels | tenants.RouteResponses | tenants.RouteFiles | tenants.RouteBatches |
	tenants.RouteFineTuning | tenants.RouteVectorStores | tenants.RouteRealtime

// TenantsWithTeams are a tenant with two teams, a stranger, and one that is granted nothing
// beyond the default.
func TenantsWithTeams() []tenants.Tenant {
	return []tenants.Tenant{
		Tenant("acme", Granted), Tenant("acme/search", Granted), Tenant("acme/batch", Granted),
		Tenant("other", Granted), Tenant("plain", nil),
	}
}

func OpenObjects(t *testing.T, dir string) *objects.Store {
	t.Helper()
	s, err := objects.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
