package harness

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/ops/admin"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/proxy/gateway"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/policy"
	"github.com/llmgov/llmgov/internal/test/testkit/pipenet"
	"github.com/llmgov/llmgov/tenants"
)

// Stack is client → gateway → model server, over pipes.
type Stack struct {
	T        *testing.T
	Mock     *mock.Server
	Governor *governor.Governor
	Gateway  *gateway.Gateway
	Metrics  *telemetry.Metrics
	log      *slog.Logger
	Client   *http.Client
	Server   gateway.Server
	Cut      context.CancelCauseFunc // of all calls in flight
	Unseen   atomic.Int64            // calls whose clients left without a byte
	closers  []func()
}

// New starts a stack in virtual time. When the test ends it must be idle.
func New(t *testing.T, w World) *Stack {
	t.Helper()
	s := Start(t, w)
	t.Cleanup(s.CheckIdle)
	return s
}

// Start starts a stack that ends with the test, also in real time.
func Start(t *testing.T, w World) *Stack {
	t.Helper()
	s := &Stack{T: t, Metrics: telemetry.New(), log: slog.New(w.logHandler())}
	t.Cleanup(s.Close)
	var err error
	s.Mock, err = mock.New(w.Mock)
	if err != nil {
		t.Fatal(err)
	}
	upstream := pipenet.Listen()
	s.Serve(&http.Server{Handler: s.Mock, Protocols: w.protocols()}, upstream)

	cfg := w.Config()
	transport := gateway.NewTransport(cfg.LeanHTTP)
	transport.DialContext = s.dialer(w, upstream)
	transport.Protocols = w.protocols()
	s.closers = append(s.closers, transport.CloseIdleConnections)
	var rt http.RoundTripper = transport
	if w.Wrap != nil {
		rt = w.Wrap(rt)
	}
	gw, gov := Build(t, cfg, w, s.Metrics, gateway.Options{Tracer: w.Tracer, Log: s.log, Transport: rt})
	s.Governor = gov
	s.Gateway = gw
	front := pipenet.Listen()
	base, cut := context.WithCancelCause(context.Background())
	s.Cut = cut
	s.Server = gateway.NewServer(&http.Server{
		Handler: gw, Protocols: w.protocols(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
		BaseContext: func(net.Listener) context.Context { return base },
	}, cfg.LeanHTTP)
	s.Serve(s.Server, front)
	clientSide := &http.Transport{DialContext: front.Dial, MaxIdleConnsPerHost: 256, DisableCompression: true, Protocols: w.protocols()}
	s.Client = &http.Client{Transport: clientSide}
	s.closers = append(s.closers, clientSide.CloseIdleConnections)
	return s
}

// AdminAPI is the admin side of the gateway.
func (s *Stack) AdminAPI(opt admin.Options) *admin.API {
	opt.Governor = s.Governor
	opt.Log = s.log
	opt.Metrics = s.Metrics.Handler()
	return admin.New(s.Gateway, opt)
}

// dialer leads to the upstreams by their names.
func (s *Stack) dialer(w World, first *pipenet.Listener) func(context.Context, string, string) (net.Conn, error) {
	hosts := map[string]*pipenet.Listener{"mock:80": first}
	for name, h := range w.Upstreams {
		if h != nil {
			l := pipenet.Listen()
			s.Serve(&http.Server{
				Handler: h, Protocols: w.protocols(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
				ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
					return context.WithValue(ctx, UpstreamConnKey{}, &UpstreamConn{Conn: conn})
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

// Build makes a gateway, and the governor below it, of a policy and the tenants, journal, recorder,
// clock and counter of prompts of a world. opt says how it logs, and reaches its upstream.
func Build(t *testing.T, cfg tenants.Config, w World, m *telemetry.Metrics, opt gateway.Options) (*gateway.Gateway, *governor.Governor) {
	t.Helper()
	snap, err := tenants.Build(cfg, w.Tenants)
	if err != nil {
		t.Fatal(err)
	}
	rules := policy.Governor(snap)
	rules.Journal = w.Journal
	rules.Observer = w.Recorder
	rules.Recorded = w.Recorder != nil
	rules.Clock = w.Clock
	rules.Shared = w.Shared
	rules.SharedLimits = w.Shared
	gov, err := governor.New(rules)
	if err != nil {
		t.Fatal(err)
	}
	m.Watch(gov.State, snap.Hash())
	opt.Admission = admission.New(admission.Options{Snapshot: snap, Governor: gov, Metrics: m, Prompts: w.Prompts})
	gw, err := gateway.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return gw, gov
}

// Server is an http.Server, or like one.
type Server interface {
	Serve(net.Listener) error
	Close() error
}

// Serve runs a server until the stack is closed.
func (s *Stack) Serve(server Server, l net.Listener) {
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

// Close ends everything that the stack started, before the test does.
func (s *Stack) Close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
	s.closers = nil
}

// Apply puts a policy in force.
func (s *Stack) Apply(snap *tenants.Snapshot) {
	s.T.Helper()
	if err := s.Gateway.Apply(snap); err != nil {
		s.T.Fatal(err)
	}
}

// Admin reads a path of the admin side.
func (s *Stack) Admin(path string, into any) {
	s.T.Helper()
	w := httptest.NewRecorder()
	s.AdminAPI(admin.Options{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		s.T.Fatalf("%s: %v: %s", path, err, w.Body)
	}
}

// UpstreamConn is a connection to an upstream. Its handlers find it in their context, under
// UpstreamConnKey.
type UpstreamConn struct {
	net.Conn
	Calls atomic.Int64
}

// UpstreamConnKey is the key of the connection in the context of a handler.
type UpstreamConnKey struct{}
