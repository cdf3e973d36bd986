package admissionserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/lib/connections"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/pipenet"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const token = "a-token-of-sixteen-characters"

// whoami is a service that answers with its caller's tenant, or panics.
type whoami struct {
	grpc_health_v1.UnimplementedHealthServer
}

func (whoami) Check(ctx context.Context, req *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if req.Service == "panic" {
		panic("as asked")
	}
	if who := CallerOf(ctx); !who.Trusted() && who.Tenant != "acme" {
		return nil, status.Error(codes.Internal, "wrong tenant "+who.Tenant)
	}
	return &grpc_health_v1.HealthCheckResponse{}, nil
}

// logged is a log that may be read while it is written.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// serve serves whoami, by HTTP/1.1 and by gRPC, and returns the address and the log.
func serve(t *testing.T, token string, tenants bool) (addr string, log *logged) {
	t.Helper()
	log = new(logged)
	s := New(Options{
		Token: token, MostMessage: 1 << 20, Log: slog.New(slog.NewTextHandler(log, nil)),
		Tenant: func(key string) (string, bool) { return "acme", key == "sk-acme" },
	})
	to := grpc.ServiceRegistrar(s)
	if tenants {
		to = s.ForTenants()
	}
	grpc_health_v1.RegisterHealthServer(to, whoami{})
	s.HandleForTenants("GET /who", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("tenant " + CallerOf(r.Context()).Tenant))
	}))
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), log
}

// ask calls whoami by gRPC, addressed to a host.
func ask(t *testing.T, addr, host, credential, service string) codes.Code {
	t.Helper()
	conn := testkit.Must(grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority(host)))(t)
	defer conn.Close()
	ctx := t.Context()
	if credential != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+credential)
	}
	_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
	return status.Code(err)
}

// Both protocols are served on one port, and who may call is decided before any service sees it.
func TestServer_Callers(t *testing.T) {
	for _, c := range []struct {
		name, token, host, credential string
		tenants                       bool
		code                          codes.Code
		status                        int
		body                          string
	}{
		{"the token", token, "llmgov:9091", token, false, codes.OK, 200, "tenant "},
		{"another token", token, "llmgov:9091", token + "x", false, codes.Unauthenticated, 401, "invalid_api_key"},
		{"no token", token, "localhost", "", false, codes.Unauthenticated, 401, "invalid_api_key"},
		{"a tenant's key", token, "llmgov:9091", "sk-acme", true, codes.OK, 200, "tenant acme"},
		{"a tenant's key at a service for the trusted", token, "llmgov:9091", "sk-acme", false, codes.PermissionDenied, 200, "tenant acme"},
		{"nothing on loopback", "", "localhost", "", false, codes.OK, 200, "tenant "},
		{"a key on loopback", "", "127.0.0.1", "sk-acme", true, codes.OK, 200, "tenant acme"},
		{"an unknown key on loopback", "", "127.0.0.1", "sk-other", true, codes.Unauthenticated, 401, "invalid_api_key"},
		{"a name that leads to loopback", "", "evil.example", "", false, codes.PermissionDenied, 403, "loopback"},
		{"a name that leads to loopback, with an empty token", "", "evil.example", " ", false, codes.PermissionDenied, 403, "loopback"},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr, log := serve(t, c.token, c.tenants)
			if got := ask(t, addr, c.host, c.credential, ""); got != c.code {
				t.Errorf("gRPC: %v, want %v", got, c.code)
			}
			req := httptest.NewRequest(http.MethodGet, "http://"+addr+"/who", http.NoBody)
			req.RequestURI = ""
			req.Host = c.host
			if c.credential != "" {
				req.Header.Set("Authorization", "Bearer "+c.credential)
			}
			resp := testkit.Must(http.DefaultClient.Do(req))(t)
			defer resp.Body.Close()
			var body bytes.Buffer
			_, _ = body.ReadFrom(resp.Body)
			if resp.StatusCode != c.status || !strings.Contains(body.String(), c.body) {
				t.Errorf("HTTP: %d %q, want %d %q", resp.StatusCode, body.String(), c.status, c.body)
			}
			if strings.Contains(log.String(), token) {
				t.Errorf("the log has the token: %s", log)
			}
		})
	}
}

// A handler that panics ends its call, and the server goes on.
// A page of another site can make a browser on this machine send what it likes, but is not trusted.
func TestServer_OtherSites(t *testing.T) {
	addr, _ := serve(t, "", true)
	for origin, want := range map[string]int{"": http.StatusMethodNotAllowed, "https://evil.example": http.StatusForbidden} {
		req := testkit.Must(http.NewRequest(http.MethodPost, "http://"+addr+"/who", strings.NewReader("{}")))(t)
		req.Host = "localhost"
		req.Header.Set("Content-Type", "text/plain")
		if origin != "" {
			req.Header.Set("Origin", origin)
			req.Header.Set("Sec-Fetch-Site", "cross-site")
		}
		resp := testkit.Must(http.DefaultClient.Do(req))(t)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("from %q: %d, want %d", origin, resp.StatusCode, want)
		}
	}
}

func TestServer_Panic(t *testing.T) {
	addr, log := serve(t, "", false)
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(t, addr, host, "", "panic"); got != codes.Internal {
		t.Errorf("%v", got)
	}
	if got := ask(t, addr, host, "", ""); got != codes.OK {
		t.Errorf("afterwards: %v", got)
	}
	if !strings.Contains(log.String(), "as asked") {
		t.Errorf("logged %q", log)
	}
}

// waiting waits until its stream ends, and says why that was.
type waiting struct {
	grpc_health_v1.UnimplementedHealthServer
	why chan error
}

func (w waiting) Watch(_ *grpc_health_v1.HealthCheckRequest, stream grpc_health_v1.Health_WatchServer) error {
	if err := stream.Send(&grpc_health_v1.HealthCheckResponse{}); err != nil {
		return err
	}
	<-stream.Context().Done()
	w.why <- context.Cause(stream.Context())
	return nil
}

// A shutdown that has lost its patience ends streams, and lets their handlers say why.
func TestServer_Cut(t *testing.T) {
	s := New(Options{Log: slog.New(slog.DiscardHandler)})
	service := waiting{why: make(chan error, 1)}
	grpc_health_v1.RegisterHealthServer(s, service)
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	go func() { _ = s.Serve(l) }() // ends with Close
	defer s.Close()
	conn := testkit.Must(grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	stream := testkit.Must(grpc_health_v1.NewHealthClient(conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{}))(t)
	testkit.Must(stream.Recv())(t)
	late := errors.New("too late")
	s.Cut(late)
	if why := <-service.why; !errors.Is(why, late) {
		t.Errorf("the stream ended with %v", why)
	}
}

// Clients that say nothing, or nothing of HTTP, keep nobody out.
func TestServer_Strangers(t *testing.T) {
	addr, _ := serve(t, "", false)
	silent := testkit.Must(net.Dial("tcp", addr))(t)
	defer silent.Close()
	for _, said := range []string{"GE", "hello, is there anybody?\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nnonsense"} {
		c := testkit.Must(net.Dial("tcp", addr))(t)
		defer c.Close()
		testkit.Must(c.Write([]byte(said)))(t)
	}
	if got := ask(t, addr, "localhost", "", ""); got != codes.OK {
		t.Errorf("%v", got)
	}
}

// A tenant that has streams on all of its connections gets no further one, and keeps nobody out that has the token.
func TestAudit_A6_TenantsKeepPlacesForTheToken(t *testing.T) {
	s := New(Options{
		Token: token, Log: slog.New(slog.DiscardHandler),
		Tenant: func(key string) (string, bool) { return "acme", key == "sk-acme" },
	})
	service := waiting{why: make(chan error, 10)}
	grpc_health_v1.RegisterHealthServer(s.ForTenants(), service)
	s.HandleForTenants("GET /who", http.NotFoundHandler())
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	go func() {
		_ = s.Serve(connections.New(l, connections.Limits{All: 8, Tenants: 2, Strangers: 2, Grace: time.Millisecond}))
	}() // ends with Close
	defer s.Close()
	addr := l.Addr().String()
	watch := func(credential string) codes.Code {
		conn := testkit.Must(grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
		t.Cleanup(func() { _ = conn.Close() })
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+credential)
		stream, err := grpc_health_v1.NewHealthClient(conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		return status.Code(err)
	}
	get := func(credential string) int {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/who", nil)
		req.Header.Set("Authorization", "Bearer "+credential)
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			t.Error(err)
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	for i, want := range []codes.Code{codes.OK, codes.OK, codes.Unavailable, codes.Unavailable} {
		if got := watch("sk-acme"); got != want {
			t.Errorf("stream %d on a connection of its own: %v, want %v", i, got, want)
		}
	}
	if got := get("sk-acme"); got != http.StatusServiceUnavailable {
		t.Errorf("by HTTP it gets %d", got)
	}
	if got := watch(token); got != codes.OK {
		t.Errorf("with the token there is %v", got)
	}
	if got := get(token); got != http.StatusNotFound {
		t.Errorf("by HTTP there is %d", got)
	}
}

// A client that has sent too little to say which server it wants does not keep a server that is closed.
func TestServer_CloseUnsorted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := pipenet.Listen()
		s := New(Options{Log: slog.New(slog.DiscardHandler)})
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		conn := testkit.Must(l.Dial(t.Context(), "", ""))(t)
		testkit.Must(io.WriteString(conn, preface[:2]))(t)
		synctest.Wait()
		began := time.Now()
		s.Close()
		if err := <-served; err != nil || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	})
}
