package extproc_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	aiv3 "github.com/envoyproxy/go-control-plane/envoy/data/ai/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/doors/envoy/extproc"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/admissiontest"
	"github.com/llmgov/llmgov/tenants"
)

// world is a governor behind the service, and a connection of a proxy to it.
type world struct {
	t       *testing.T
	gov     *governor.Governor
	service *extproc.Service
	client  pb.ExternalProcessorClient
	cut     context.CancelCauseFunc // as a drain does whose time is over
}

// setting is a world before it is built.
type setting struct {
	config tenants.Config
	pool   tenants.Pool
	acme   tenants.Tenant
	opt    extproc.Options
}

func newWorld(t *testing.T, change func(*setting)) *world {
	t.Helper()
	s := setting{config: tenants.DefaultConfig(), pool: tenants.DefaultPool("gpt")}
	s.config.Upstreams = []tenants.Upstream{{Name: "openai", BaseURL: "https://api.openai.com/v1"}}
	s.pool.Models = []string{"gpt-*"}
	s.pool.TPM = 600_000
	s.acme = tenants.Tenant{Name: "acme", Keys: []tenants.Key{{Hash: tenants.HashKey("sk-acme")}}, Models: []string{"gpt-4o"}, Routes: tenants.RouteInference}
	s.opt = extproc.Options{MostCalls: 1000, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&s)
	}
	s.config.Pools = []tenants.Pool{s.pool}
	other := s.acme
	other.Name = "other"
	other.Keys = []tenants.Key{{Hash: tenants.HashKey("sk-other")}}
	s.opt.Admission = admissiontest.Build(t, s.config, s.acme, other)
	service := extproc.New(s.opt)
	w := &world{t: t, gov: s.opt.Admission.Governor(), service: service}
	base, cut := context.WithCancelCause(context.Background())
	w.cut = cut
	w.client = serve(t, base, service)
	return w
}

// serve serves calls whose contexts end with base.
func serve(t *testing.T, base context.Context, service *extproc.Service) pb.ExternalProcessorClient {
	t.Helper()
	listener := bufconn.Listen(64 << 10)
	server := grpc.NewServer(grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		ctx, cancel := context.WithCancelCause(stream.Context())
		defer cancel(nil)
		defer context.AfterFunc(base, func() { cancel(context.Cause(base)) })()
		return next(srv, within{stream, ctx})
	}))
	service.Register(server)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn := testkit.Must(grpc.NewClient(
		"passthrough:///proxy", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
	))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return pb.NewExternalProcessorClient(conn)
}

// within is a stream with another context.
type within struct {
	grpc.ServerStream
	ctx context.Context
}

func (w within) Context() context.Context { return w.ctx }

// settled waits until no call is under way, and returns what the tenant was charged.
func (w *world) settled() int64 {
	w.t.Helper()
	for {
		if n, _ := w.gov.Leases(); n == 0 {
			break
		}
		if w.t.Context().Err() != nil {
			w.t.Fatal("a lease is left")
		}
	}
	q := w.gov.Standing("acme", "gpt").Tokens
	return q.Limit - q.Remaining
}

// proxied is one call of the proxy.
type proxied struct {
	t      *testing.T
	stream pb.ExternalProcessor_ProcessClient
	leave  context.CancelFunc
}

func (w *world) call() *proxied {
	w.t.Helper()
	ctx, leave := context.WithCancel(w.t.Context())
	w.t.Cleanup(leave)
	stream := testkit.Must(w.client.Process(ctx))(w.t)
	return &proxied{w.t, stream, leave}
}

// ask sends a message and returns the answer to it.
func (p *proxied) ask(m *pb.ProcessingRequest) *pb.ProcessingResponse {
	p.t.Helper()
	r, err := p.try(m)
	if err != nil {
		p.t.Fatalf("after %T: %v", m.Request, err)
	}
	return r
}

func (p *proxied) try(m *pb.ProcessingRequest) (*pb.ProcessingResponse, error) {
	if err := p.stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return p.stream.Recv()
}

// The messages of a proxy.

func headerMap(pairs ...string) *corev3.HeaderMap {
	m := new(corev3.HeaderMap)
	for i := 0; i < len(pairs); i += 2 {
		m.Headers = append(m.Headers, &corev3.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])})
	}
	return m
}

// opened is a call of acme's on a route, with further headers.
func opened(path string, mode procv3.ProcessingMode_BodySendMode, more ...string) *pb.ProcessingRequest {
	pairs := append([]string{":method", "POST", ":path", path, "content-type", "application/json"}, more...)
	if !slices.Contains(more, "authorization") {
		pairs = append(pairs, "authorization", "Bearer sk-acme")
	}
	return &pb.ProcessingRequest{
		Request:        &pb.ProcessingRequest_RequestHeaders{RequestHeaders: &pb.HttpHeaders{Headers: headerMap(pairs...)}},
		ProtocolConfig: &pb.ProtocolConfiguration{RequestBodyMode: mode},
	}
}

// described is a chat call with the metadata of Envoy's ai_protocol_manager, as Envoy 1.40 sends it.
func described(info *aiv3.RequestInfo, more ...string) *pb.ProcessingRequest {
	return withMetadata(opened("/v1/chat/completions", procv3.ProcessingMode_NONE, more...), "envoy.ai.request_info", info)
}

func chatInfo(most uint64) *aiv3.RequestInfo {
	return &aiv3.RequestInfo{Model: "gpt-4o", Stream: wrapperspb.Bool(true), MaxOutputTokens: wrapperspb.UInt64(most), EstimatedInputTokens: wrapperspb.UInt64(60)}
}

func withMetadata(m *pb.ProcessingRequest, namespace string, v proto.Message) *pb.ProcessingRequest {
	packed, err := anypb.New(v)
	if err != nil {
		panic(err)
	}
	m.MetadataContext = &corev3.Metadata{TypedFilterMetadata: map[string]*anypb.Any{namespace: packed}}
	return m
}

func body(text string) *pb.ProcessingRequest {
	return &pb.ProcessingRequest{Request: &pb.ProcessingRequest_RequestBody{RequestBody: &pb.HttpBody{Body: []byte(text), EndOfStream: true}}}
}

func answered(status, kind string, more ...string) *pb.ProcessingRequest {
	pairs := append([]string{":status", status, "content-type", kind}, more...)
	return &pb.ProcessingRequest{Request: &pb.ProcessingRequest_ResponseHeaders{ResponseHeaders: &pb.HttpHeaders{Headers: headerMap(pairs...)}}}
}

func part(text string, last bool) *pb.ProcessingRequest {
	return &pb.ProcessingRequest{Request: &pb.ProcessingRequest_ResponseBody{ResponseBody: &pb.HttpBody{Body: []byte(text), EndOfStream: last}}}
}

func trailers() *pb.ProcessingRequest {
	return &pb.ProcessingRequest{Request: &pb.ProcessingRequest_ResponseTrailers{ResponseTrailers: &pb.HttpTrailers{}}}
}

func used(input, output uint64) *pb.ProcessingRequest {
	return withMetadata(trailers(), "envoy.ai.token_usage", &aiv3.TokenUsage{
		InputTokens: wrapperspb.UInt64(input), OutputTokens: wrapperspb.UInt64(output), ExtractionStatus: aiv3.TokenUsage_COMPLETE,
	})
}

// set are the headers that a mutation sets.
func set(m *pb.HeaderMutation) http.Header {
	h := http.Header{}
	for _, v := range m.GetSetHeaders() {
		h.Set(v.Header.Key, string(v.Header.RawValue))
	}
	return h
}
