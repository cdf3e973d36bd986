package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/policy"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/admin"
	"github.com/llmgov/llmgov/internal/gateway"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/telemetry"
	"github.com/llmgov/llmgov/internal/testkit/pipenet"
	"github.com/llmgov/llmgov/internal/tracing"
	"github.com/llmgov/llmgov/tenants"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stack is client → gateway → model server, over pipes.
type stack struct {
	t       *testing.T
	mock    *mock.Server
	gov     *governor.Governor
	gateway *gateway.Gateway
	metrics *telemetry.Metrics
	log     *slog.Logger
	client  *http.Client
	server  *http.Server
	cut     context.CancelCauseFunc // of all calls in flight
	unseen  atomic.Int64            // calls whose clients left without a byte
	closers []func()
}

// world is what a stack is made of.
type world struct {
	mock    mock.Config
	pool    tenants.Pool
	tenants []tenants.Tenant
	idle    time.Duration // stream_idle
	prices  []tenants.ModelPrice
	zone    string
	journal governor.Journal
	// recorder is told all that the governor is, and decides.
	recorder governor.Observer
	// clock is the governor's; nil is the machine's.
	clock   governor.Clock
	prompts gateway.PromptCounter
	log     slog.Handler // nil throws it away
	tracer  *tracing.Tracer
	// wrap stands between the gateway and the model server.
	wrap func(http.RoundTripper) http.RoundTripper
	// others are more upstreams, by name; nil is one that cannot be reached.
	others map[string]http.Handler
	tune   func(*tenants.Config)
	// version is of HTTP, on both sides of the gateway: 0 is 1, 2 is what upstreams speak behind TLS.
	version int
}

// protocols are what the world speaks.
func (w world) protocols() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(w.version != 2)
	p.SetUnencryptedHTTP2(w.version == 2)
	return &p
}

// pool is a pool of every model.
func pool(tpm, rpm, concurrency int64) tenants.Pool {
	p := tenants.DefaultPool("p", "*")
	p.TPM = tpm
	p.RPM = rpm
	p.Concurrency = concurrency
	return p
}

// tenant has its name as its key.
func tenant(name string, weight int64) tenants.Tenant {
	return tenants.Tenant{Name: name, Tier: "t", Weight: weight * 1000, Keys: []tenants.Key{{Hash: tenants.HashKey(name)}}}
}

func newStack(t *testing.T, w world) *stack {
	t.Helper()
	s := &stack{t: t, metrics: telemetry.New(), log: slog.New(w.logHandler())}
	var err error
	s.mock, err = mock.New(w.mock)
	if err != nil {
		t.Fatal(err)
	}
	upstream := pipenet.Listen()
	s.serve(&http.Server{Handler: s.mock, Protocols: w.protocols()}, upstream)

	cfg := w.config()
	transport := gateway.NewTransport(cfg.Timeouts)
	transport.DialContext, transport.Protocols = s.dialer(w, upstream), w.protocols()
	s.closers = append(s.closers, transport.CloseIdleConnections)
	var rt http.RoundTripper = transport
	if w.wrap != nil {
		rt = w.wrap(rt)
	}
	gw, gov := buildFor(t, cfg, &w, gateway.Options{Metrics: s.metrics, Tracer: w.tracer, Log: s.log, Transport: rt, Prompts: w.prompts})
	s.gov = gov
	s.gateway = gw
	front := pipenet.Listen()
	base, cut := context.WithCancelCause(context.Background())
	s.cut = cut
	s.server = &http.Server{
		Handler: gw, Protocols: w.protocols(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
		BaseContext: func(net.Listener) context.Context { return base },
	}
	s.serve(s.server, front)
	clientSide := &http.Transport{DialContext: front.Dial, MaxIdleConnsPerHost: 256, DisableCompression: true, Protocols: w.protocols()}
	s.client = &http.Client{Transport: clientSide}
	s.closers = append(s.closers, clientSide.CloseIdleConnections)
	return s
}

// adminAPI is the admin side of the gateway.
func (s *stack) adminAPI(opt admin.Options) *admin.API {
	opt.Governor = s.gov
	opt.Log = s.log
	opt.Metrics = s.metrics.Handler()
	return admin.New(s.gateway, opt)
}

// dialer leads to the upstreams by their names.
func (s *stack) dialer(w world, first *pipenet.Listener) func(context.Context, string, string) (net.Conn, error) {
	hosts := map[string]*pipenet.Listener{"mock:80": first}
	for name, h := range w.others {
		if h != nil {
			l := pipenet.Listen()
			s.serve(&http.Server{
				Handler: h, Protocols: w.protocols(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
				ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
					return context.WithValue(ctx, lineKey{}, &line{Conn: conn})
				},
			}, l)
			hosts[name+":80"] = l
		}
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		l := hosts[addr]
		if l == nil {
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		}
		return l.Dial(ctx, network, addr)
	}
}

// config has the world's pool, in front of the model server.
func (w world) config() tenants.Config {
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "mock", BaseURL: "http://mock/v1", APIKey: "upstream-key"}}
	for name := range w.others {
		cfg.Upstreams = append(cfg.Upstreams, tenants.Upstream{Name: name, BaseURL: "http://" + name + "/v1", APIKey: "key-of-" + name})
	}
	cfg.Pools = []tenants.Pool{w.pool}
	cfg.Prices = w.prices
	cfg.Timezone = w.zone
	if w.idle > 0 {
		cfg.Timeouts.StreamIdle = w.idle
	}
	if w.tune != nil {
		w.tune(&cfg)
	}
	return cfg
}

func (w world) logHandler() slog.Handler {
	if w.log == nil {
		return slog.DiscardHandler
	}
	return w.log
}

// build makes a gateway of a policy, and the governor below it. opt says how it
// counts, logs, and reaches its upstream.
func build(t *testing.T, cfg tenants.Config, list []tenants.Tenant, journal governor.Journal, recorder governor.Observer, opt gateway.Options) (*gateway.Gateway, *governor.Governor) {
	t.Helper()
	return buildFor(t, cfg, &world{tenants: list, journal: journal, recorder: recorder}, opt)
}

// buildFor makes them of a policy and the tenants, journal, recorder and clock of a world.
func buildFor(t *testing.T, cfg tenants.Config, w *world, opt gateway.Options) (*gateway.Gateway, *governor.Governor) {
	t.Helper()
	snap, err := tenants.Build(cfg, w.tenants)
	if err != nil {
		t.Fatal(err)
	}
	rules := policy.Governor(snap)
	rules.Journal = w.journal
	rules.Observer = w.recorder
	rules.Recorded = w.recorder != nil
	rules.Clock = w.clock
	gov, err := governor.New(rules)
	if err != nil {
		t.Fatal(err)
	}
	opt.Metrics.Watch(gov.State, snap.Hash())
	opt.Snapshot = snap
	opt.Governor = gov
	gw, err := gateway.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return gw, gov
}

func (s *stack) serve(server *http.Server, l net.Listener) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	s.closers = append(s.closers, func() {
		_ = server.Close()
		<-done
	})
}

// failing is a journal that keeps nothing while it has an error.
type failing struct {
	err  error
	kept int
}

func (f *failing) Append(governor.Record) error {
	if f.err == nil {
		f.kept++
	}
	return f.err
}

// close ends everything that the stack started.
func (s *stack) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
}

// chat is a chat request's body; extra is more of its members.
func chat(stream bool, maxTokens int, extra string) string {
	return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"How long is a piece of string?"}],"stream":%v,"max_tokens":%d%s}`, stream, maxTokens, extra)
}

// post sends a call as a tenant. header is pairs of names and values.
func (s *stack) post(ctx context.Context, tenant, body string, header ...string) (*http.Response, error) {
	return s.postTo(ctx, "/chat/completions", tenant, body, header...)
}

// postTo is post to another route.
func (s *stack) postTo(ctx context.Context, path, tenant, body string, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway/v1"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+tenant)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return s.client.Do(req)
}

// answer is what came of a call.
type answer struct {
	status int
	header http.Header
	body   string
	err    error
}

// call sends a call and reads its whole answer.
func (s *stack) call(ctx context.Context, tenant, body string, header ...string) answer {
	return s.callTo(ctx, "/chat/completions", tenant, body, header...)
}

// callTo is call to another route.
func (s *stack) callTo(ctx context.Context, path, tenant, body string, header ...string) answer {
	resp, err := s.postTo(ctx, path, tenant, body, header...)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(b), err}
}

// charged sums llmgov_tokens_total over a kind and tenant; an empty tenant is all.
func (s *stack) charged(tenant, kind string) int64 {
	return s.sum("llmgov_tokens_total", map[string]string{"tenant": tenant, "kind": kind})
}

// sum adds up the series of a counter or a gauge whose labels match; an empty value
// matches all.
func (s *stack) sum(name string, labels map[string]string) int64 {
	s.t.Helper()
	return counted(s.t, s.metrics, name, labels)
}

func counted(t *testing.T, m *telemetry.Metrics, name string, labels map[string]string) int64 {
	t.Helper()
	families, err := prometheus.Gatherers{m.Registry()}.Gather()
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if matches(m.GetLabel(), labels) {
				total += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return int64(total)
}

func matches(have []*dto.LabelPair, want map[string]string) bool {
	for _, l := range have {
		if v := want[l.GetName()]; v != "" && v != l.GetValue() {
			return false
		}
	}
	return true
}

// checkIdle fails unless nothing runs, waits or is held anywhere.
func (s *stack) checkIdle() {
	s.t.Helper()
	synctest.Wait() // who has just gone has been seen to go
	if running, waiting := s.gov.Leases(); running != 0 || waiting != 0 {
		s.t.Errorf("%d leases run and %d calls wait when all is over", running, waiting)
	}
	for _, ts := range s.gov.State().Tenants {
		if ts.Running != 0 || ts.InLine != 0 {
			s.t.Errorf("tenant %s: %d run and %d stand in line when all is over", ts.Config.Name, ts.Running, ts.InLine)
		}
	}
	if n := s.sum("llmgov_body_memory_bytes", nil); n != 0 {
		s.t.Errorf("bodies have %d bytes of memory when all is over", n)
	}
	if st := s.mock.Stats(); st.Running != 0 || st.Queued != 0 {
		s.t.Errorf("the model server still runs %d and queues %d", st.Running, st.Queued)
	}
}

// errorCode is error.code of a refusal's body.
func errorCode(body string) string { return readError(body).Code }

// readError is the error of a refusal's body.
func readError(body string) struct{ Code, Type, Message string } {
	var e struct {
		Error struct{ Code, Type, Message string }
	}
	_ = json.Unmarshal([]byte(body), &e)
	return e.Error
}
