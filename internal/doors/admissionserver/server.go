package admissionserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/llmgov/llmgov/internal/lib/bearer"
	"github.com/llmgov/llmgov/internal/lib/connections"
	"github.com/llmgov/llmgov/internal/lib/sampled"
	"github.com/llmgov/llmgov/internal/ops/crash"
	"github.com/llmgov/llmgov/internal/run/rateheaders"
)

// Options are the parts of a Server.
type Options struct {
	// Token is that of callers who may name any tenant; "" is none.
	Token string
	// Tenant finds the tenant of a key.
	Tenant func(key string) (name string, ok bool)
	// MostMessage bounds a message of a stream of gRPC, in bytes. 0 is 4 MiB.
	MostMessage int
	// Node names this process in all answers of HTTP, because a reservation is one gateway's; "" is none.
	Node string
	Log  *slog.Logger
}

// Server serves the listener. Services are registered before it serves.
type Server struct {
	Node   string // as in Options
	token  atomic.Pointer[bearer.Token]
	tenant func(key string) (name string, ok bool)
	log    *slog.Logger
	now    func() time.Time
	wrong  sampled.Gate
	grpc   *grpc.Server
	http   *http.Server
	routes *http.ServeMux
	open   map[string]bool // gRPC services for tenants

	base context.Context // of all streams of gRPC
	cut  context.CancelCauseFunc
}

// MostRequest is the largest body of HTTP, and the largest message of a gRPC call that is no stream, in bytes: of requests that describe
// a call, and do not bring its body.
const MostRequest = 64 << 10

// The bounds of a connection. ext_proc has a stream for each call of its proxy, and a connection per worker.
const (
	mostStreams = 1000
	mostHeader  = 64 << 10
	idle        = 2 * time.Minute
	// streamWindow and connWindow are how many bytes a client may send ahead. gRPC asks for a larger message as soon as it knows its length.
	// Fixed windows keep it from measuring the way to each client by pings, one for almost every message.
	streamWindow = 64 << 10
	connWindow   = 4 << 20
	// streamWorkers are goroutines that serve calls with a stack that has grown already. If all wait, others are started.
	streamWorkers = 64
)

// New returns a Server without services.
func New(opt Options) *Server {
	s := &Server{
		Node: opt.Node, tenant: opt.Tenant, log: opt.Log, now: time.Now,
		wrong: sampled.Gate{Every: time.Minute, Most: 5}, routes: http.NewServeMux(), open: map[string]bool{},
	}
	s.SetToken(opt.Token)
	s.base, s.cut = context.WithCancelCause(context.Background())
	s.grpc = grpc.NewServer(
		grpc.Creds(plain{}),
		grpc.InTapHandle(s.tap),
		grpc.ChainUnaryInterceptor(s.recoverUnary, boundUnary),
		grpc.ChainStreamInterceptor(s.recoverStream, s.cuttable),
		grpc.MaxRecvMsgSize(cmp.Or(opt.MostMessage, 4<<20)),
		grpc.MaxConcurrentStreams(mostStreams),
		grpc.MaxHeaderListSize(mostHeader),
		grpc.ConnectionTimeout(prefacePatience),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: idle}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	)
	s.http = &http.Server{
		Handler:           noOtherSite(http.HandlerFunc(s.serveHTTP)),
		ReadHeaderTimeout: prefacePatience,
		IdleTimeout:       idle,
		MaxHeaderBytes:    mostHeader,
		ConnContext:       connContext,
		ErrorLog:          slog.NewLogLogger(opt.Log.Handler(), slog.LevelDebug),
	}
	return s
}

// Serve serves a listener until Close.
func (s *Server) Serve(l net.Listener) error {
	both := newSplit(l)
	var group errgroup.Group
	group.Go(both.run)
	group.Go(func() error { return ignoreClosed(s.http.Serve(both.http)) })
	group.Go(func() error { return ignoreClosed(s.grpc.Serve(both.grpc)) })
	return group.Wait()
}

// SetToken changes the token of callers who may name any tenant.
func (s *Server) SetToken(text string) {
	token := bearer.NewToken(text)
	s.token.Store(&token)
}

// Cut ends the contexts of all streams of gRPC, with a cause.
func (s *Server) Cut(cause error) { s.cut(cause) }

// Close closes the listener and all connections.
func (s *Server) Close() {
	s.grpc.Stop()
	_ = s.http.Close()
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, grpc.ErrServerStopped) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// RegisterService adds a gRPC service for callers with the token. It implements grpc.ServiceRegistrar.
func (s *Server) RegisterService(d *grpc.ServiceDesc, impl any) { s.grpc.RegisterService(d, impl) }

// ForTenants registers gRPC services for callers with the key of a tenant, too. These ask CallerOf whom
// they serve.
func (s *Server) ForTenants() grpc.ServiceRegistrar { return forTenants{s} }

type forTenants struct{ *Server }

func (f forTenants) RegisterService(d *grpc.ServiceDesc, impl any) {
	f.open[d.ServiceName] = true
	f.grpc.RegisterService(d, impl)
}

// HandleForTenants adds a route of HTTP for all callers, by a pattern of http.ServeMux.
func (s *Server) HandleForTenants(pattern string, h http.Handler) { s.routes.Handle(pattern, h) }

// noOtherSite refuses what a page of another site makes a browser send: without a token, whoever is on this machine is trusted,
// and pages in its browser are not.
func noOtherSite(h http.Handler) http.Handler { return http.NewCrossOriginProtection().Handler(h) }

// serveHTTP finds out who calls, and serves a route.
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	defer connections.Begin(r.Context()).End()
	rateheaders.Node(w.Header(), s.Node)
	who, wrong := s.caller(request{bearer.Credential(r.Header), r.Host, r.URL.Path}, func() string { return r.RemoteAddr })
	if wrong != nil {
		refuse(w, wrong)
		return
	}
	if wrong := known(r.Context(), who); wrong != nil {
		w.Header().Set("Connection", "close")
		refuse(w, wrong)
		return
	}
	defer crash.Deferred()
	s.routes.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, who)))
}

// refuse answers with a fault.
func refuse(w http.ResponseWriter, f *fault) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if f.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="llmgov admission"`)
	}
	w.WriteHeader(f.status)
	code := codeOf(f.status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": code, "type": code, "param": nil, "message": f.text}})
}

func codeOf(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "invalid_api_key"
	case http.StatusServiceUnavailable:
		return "overloaded"
	}
	return "route_not_allowed"
}
