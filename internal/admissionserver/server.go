package admissionserver

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/llmgov/llmgov/internal/bearer"
	"github.com/llmgov/llmgov/internal/connections"
	"github.com/llmgov/llmgov/internal/crash"
	"github.com/llmgov/llmgov/internal/sampled"
)

// Options are the parts of a Server.
type Options struct {
	// Token is that of callers who may name any tenant; "" is none.
	Token string
	// Tenant finds the tenant of a key.
	Tenant func(key string) (name string, ok bool)
	// MostMessage bounds a message of gRPC, in bytes.
	MostMessage int
	Log         *slog.Logger
}

// Server is the handler of the listener. Services are registered before it serves.
type Server struct {
	token  bearer.Token
	tenant func(key string) (name string, ok bool)
	log    *slog.Logger
	now    func() time.Time
	wrong  sampled.Gate
	grpc   *grpc.Server
	routes *http.ServeMux
	open   map[string]bool // gRPC services for tenants
}

// New returns a Server without services.
func New(opt Options) *Server {
	s := &Server{
		token: bearer.NewToken(opt.Token), tenant: opt.Tenant, log: opt.Log, now: time.Now,
		wrong: sampled.Gate{Every: time.Minute, Most: 5}, routes: http.NewServeMux(), open: map[string]bool{},
	}
	s.grpc = grpc.NewServer(grpc.MaxRecvMsgSize(opt.MostMessage), grpc.UnaryInterceptor(s.recoverUnary), grpc.StreamInterceptor(s.recoverStream))
	return s
}

// RegisterService adds a gRPC service for callers with the token. It implements grpc.ServiceRegistrar.
func (s *Server) RegisterService(d *grpc.ServiceDesc, impl any) { s.grpc.RegisterService(d, impl) }

// ForTenants registers gRPC services for callers with the key of a tenant, too. These ask CallerOf whom
// they serve.
func (s *Server) ForTenants() grpc.ServiceRegistrar { return forTenants{s} }

type forTenants struct{ *Server }

// RegisterService implements grpc.ServiceRegistrar.
func (f forTenants) RegisterService(d *grpc.ServiceDesc, impl any) {
	f.open[d.ServiceName] = true
	f.grpc.RegisterService(d, impl)
}

// HandleForTenants adds a route of HTTP for all callers, by a pattern of http.ServeMux.
func (s *Server) HandleForTenants(pattern string, h http.Handler) { s.routes.Handle(pattern, h) }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who, wrong := s.caller(r)
	if wrong != nil {
		refuse(w, wrong)
		return
	}
	connections.Known(r.Context())
	r = r.WithContext(context.WithValue(r.Context(), callerKey{}, who))
	if r.ProtoMajor != 2 || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		defer crash.Deferred()
		s.routes.ServeHTTP(w, r)
		return
	}
	service, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if !who.Trusted() && !s.open[service] {
		refuse(w, &fault{http.StatusForbidden, "this service needs the admission.token: a tenant's key does not suffice"})
		return
	}
	s.grpc.ServeHTTP(w, r)
}

// refuse answers with a status that clients of gRPC understand, too.
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
	if status == http.StatusUnauthorized {
		return "invalid_api_key"
	}
	return "route_not_allowed"
}
