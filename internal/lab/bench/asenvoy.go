package main

import (
	"context"
	"fmt"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	aiv3 "github.com/envoyproxy/go-control-plane/envoy/data/ai/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// tenantHeader is where calls of proxies name their tenant.
const tenantHeader = "X-Tenant"

// asEnvoy sends the messages that Envoy sends, without its proxying.
type asEnvoy struct {
	*grpc.ClientConn
	calls  extproc.ExternalProcessorClient
	limits ratelimit.RateLimitServiceClient
}

func dialAsEnvoy(addr string) (*asEnvoy, error) {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return &asEnvoy{conn, extproc.NewExternalProcessorClient(conn), ratelimit.NewRateLimitServiceClient(conn)}, nil
}

func withToken(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+admissionToken)
}

const plainAnswer = `{"choices":[{"index":0,"message":{"role":"assistant","content":"It depends."}}],"usage":{"prompt_tokens":100,"completion_tokens":20}}`

// metadata is a call of which ext_proc sees no body.
func (e *asEnvoy) metadata(ctx context.Context, tenant int) (time.Duration, error) {
	info := &aiv3.RequestInfo{Model: "gpt-4o", MaxOutputTokens: wrapperspb.UInt64(400), EstimatedInputTokens: wrapperspb.UInt64(100)}
	used := &aiv3.TokenUsage{InputTokens: wrapperspb.UInt64(100), OutputTokens: wrapperspb.UInt64(20), ExtractionStatus: aiv3.TokenUsage_COMPLETE}
	end := &extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_ResponseTrailers{ResponseTrailers: &extproc.HttpTrailers{}}}
	return e.stream(ctx, withMetadata(request(tenant, procv3.ProcessingMode_NONE), info), response(), withMetadata(end, used))
}

// bodies is a call of which ext_proc sees both bodies.
func (e *asEnvoy) bodies(ctx context.Context, tenant int) (time.Duration, error) {
	ask := []byte(`{"model":"gpt-4o","max_tokens":400,"messages":[{"role":"user","content":"How long is a piece of string?"}]}`)
	body := &extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestBody{RequestBody: &extproc.HttpBody{Body: ask, EndOfStream: true}}}
	part := &extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_ResponseBody{ResponseBody: &extproc.HttpBody{Body: []byte(plainAnswer), EndOfStream: true}}}
	return e.stream(ctx, request(tenant, procv3.ProcessingMode_BUFFERED), body, response(), part)
}

// stream is a stream of ext_proc, each of whose messages waits for the answer to the one before.
func (e *asEnvoy) stream(ctx context.Context, messages ...*extproc.ProcessingRequest) (time.Duration, error) {
	began := time.Now()
	ctx, end := context.WithCancel(withToken(ctx))
	defer end()
	s, err := e.calls.Process(ctx)
	if err != nil {
		return 0, err
	}
	for _, m := range messages {
		if err := s.Send(m); err != nil {
			return 0, err
		}
		r, err := s.Recv()
		if err != nil {
			return 0, err
		}
		if no := r.GetImmediateResponse(); no != nil {
			return 0, fmt.Errorf("refused: %s", no.Body)
		}
	}
	return time.Since(began), nil
}

// rateLimit is a call with a lease, and its end.
func (e *asEnvoy) rateLimit(ctx context.Context, tenant int) (time.Duration, error) {
	began := time.Now()
	ctx = withToken(ctx)
	r, err := e.limits.ShouldRateLimit(ctx, limitsOf(
		counted(100, "tenant", tenantName(tenant), "model", "gpt-4o", "llmgov_count", "input"), counted(400, "llmgov_count", "output"),
	))
	if err != nil {
		return 0, err
	}
	if r.OverallCode != ratelimit.RateLimitResponse_OK {
		return 0, fmt.Errorf("refused: %s", r.RawBody)
	}
	id := r.RequestHeadersToAdd[0].Value
	_, err = e.limits.ShouldRateLimit(ctx, limitsOf(
		counted(100, "llmgov_lease", id, "llmgov_count", "input"), counted(20, "llmgov_lease", id, "llmgov_count", "output"),
	))
	return time.Since(began), err
}

func limitsOf(list ...*commonv3.RateLimitDescriptor) *ratelimit.RateLimitRequest {
	return &ratelimit.RateLimitRequest{Domain: "llmgov", Descriptors: list}
}

// counted is a descriptor with hits, and with keys and values.
func counted(hits uint64, pairs ...string) *commonv3.RateLimitDescriptor {
	d := &commonv3.RateLimitDescriptor{HitsAddend: wrapperspb.UInt64(hits)}
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

func request(tenant int, body procv3.ProcessingMode_BodySendMode) *extproc.ProcessingRequest {
	h := headers(":method", "POST", ":path", "/v1/chat/completions", "content-type", "application/json", "user-agent", "openai/1.0", tenantHeader, tenantName(tenant))
	return &extproc.ProcessingRequest{
		Request:        &extproc.ProcessingRequest_RequestHeaders{RequestHeaders: &extproc.HttpHeaders{Headers: h}},
		ProtocolConfig: &extproc.ProtocolConfiguration{RequestBodyMode: body},
	}
}

func response() *extproc.ProcessingRequest {
	h := headers(":status", "200", "content-type", "application/json", "date", "Sun, 22 Nov 2026 19:31:54 GMT")
	return &extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extproc.HttpHeaders{Headers: h}}}
}

func headers(pairs ...string) *corev3.HeaderMap {
	m := new(corev3.HeaderMap)
	for i := 0; i < len(pairs); i += 2 {
		m.Headers = append(m.Headers, &corev3.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])})
	}
	return m
}

func withMetadata(m *extproc.ProcessingRequest, v proto.Message) *extproc.ProcessingRequest {
	packed, err := anypb.New(v)
	if err != nil {
		panic(err)
	}
	m.MetadataContext = &corev3.Metadata{TypedFilterMetadata: map[string]*anypb.Any{"envoy.ai": packed}}
	return m
}
