package doors

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	aiv3 "github.com/envoyproxy/go-control-plane/envoy/data/ai/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/tidwall/gjson"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/client/doors"
	"github.com/llmgov/llmgov/governor/embedded"
	"github.com/llmgov/llmgov/governor/govhttp"
	"github.com/llmgov/llmgov/governor/remote"
	"github.com/llmgov/llmgov/internal/doors/admissionserver"
	"github.com/llmgov/llmgov/internal/doors/envoy/extproc"
	"github.com/llmgov/llmgov/internal/doors/envoy/ratelimit"
	"github.com/llmgov/llmgov/internal/doors/inprocess"
	"github.com/llmgov/llmgov/internal/doors/reserve"
	"github.com/llmgov/llmgov/internal/doors/reserveserver"
	"github.com/llmgov/llmgov/internal/lib/http1"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/admissiontest"
	"github.com/llmgov/llmgov/internal/test/testkit/pipenet"
	"github.com/llmgov/llmgov/tenants"
)

// took is what a provider counts for a call.
type took struct{ input, output int64 }

// bubble is a policy of one tenant, a, and its provider, in virtual time: all doors without processes or sockets.
type bubble struct {
	*testing.T
	harness.World
	provide func(body string) took // takes as long as the call
	broken  string                 // the body of calls that their callers break off before any usage
}

// patience is how long the caller of a body stays.
func (b *bubble) patience(body string) (context.Context, context.CancelFunc) {
	if body == b.broken {
		return context.WithTimeout(b.Context(), dearRuns/2)
	}
	return context.WithCancel(b.Context())
}

// formMark is what forms begin with.
const formMark = "--form"

// contentType is that of a body.
func contentType(body string) string {
	if strings.HasPrefix(body, formMark) {
		return "multipart/form-data; boundary=" + formMark[2:]
	}
	return "application/json"
}

// sends makes a tenant's call of a path below /v1, and reports whether it was served.
type sends func(path, body string) bool

// inBubble are the doors. Programs that speak for their tenants do so as their own do: LiteLLM, and Envoy's filters.
var inBubble = []struct {
	name  string
	open  func(*bubble) sends
	blind bool // it is told no more of a prompt than its length
}{
	{"proxy", (*bubble).proxy, false},
	{"Go, embedded", func(b *bubble) sends {
		policy := embedded.Policy{Further: func(cfg *tenants.Config, list *[]tenants.Tenant) {
			*cfg = b.Config()
			*list = slices.Clone(b.Tenants)
		}}
		return b.governed(testkit.Must(embedded.New(b.Context(), policy, embedded.Options{Log: slog.New(slog.DiscardHandler), Env: []string{}}))(b.T).Client)
	}, false},
	{"Go, remote", func(b *bubble) sends {
		dial := b.listen()
		return b.governed(testkit.Must(remote.Dial("passthrough:///llmgov:9091", remote.Options{Token: AdmissionToken, Connection: []grpc.DialOption{overPipe(dial)}}))(b.T))
	}, false},
	{"reserve and commit, HTTP", func(b *bubble) sends { return b.governed(doors.Open(b.reservations(AdmissionToken), doors.Options{})) }, false},
	{"reserve and commit, a tenant's key", func(b *bubble) sends { return b.told(b.reservations("a"), "key") }, true},
	{"LiteLLM", func(b *bubble) sends { return b.told(b.reservations(AdmissionToken), "tenant") }, true},
	{"ext_proc with bodies", func(b *bubble) sends { return b.extProc(b.dial(), false, true) }, false},
	{"ext_proc with metadata", func(b *bubble) sends { return b.extProc(b.dial(), true, true) }, true},
	{"ext_proc with metadata, in chunks", func(b *bubble) sends { return b.extProc(b.dial(), true, false) }, true},
	{"rate limit service", func(b *bubble) sends { return b.rateLimit(b.dial(), 0) }, true},
	{"rate limit service, told of prompts", func(b *bubble) sends { return b.rateLimit(b.dial(), 4) }, true},
}

// answers is the provider as the model server of programs that call it by HTTP.
func (b *bubble) answers(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if w, by := r.Context().(http1.Witness); by { // the gateway
		w.WroteHeaders()
		_ = r.Context().Done() // from when on it looks whether its caller is still there
	}
	answer := b.provide(string(body)).answer()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(answer)), Request: r,
	}, nil
}

// answer is an answer with that usage, in the words of all routes.
func (u took) answer() string {
	return fmt.Sprintf(`{"object":"response","status":"completed","usage":{"prompt_tokens":%[1]d,"completion_tokens":%[2]d,"input_tokens":%[1]d,"output_tokens":%[2]d,"total_tokens":%[3]d}}`, u.input, u.output, u.input+u.output)
}

func (b *bubble) proxy() sends {
	b.Wrap = func(http.RoundTripper) http.RoundTripper { return harness.RoundTripperFunc(b.answers) }
	s := harness.New(b.T, b.World)
	return func(path, body string) bool {
		ctx, end := b.patience(body)
		defer end()
		return s.CallTo(ctx, path, "a", body, "Content-Type", contentType(body)).Status == http.StatusOK || ctx.Err() != nil
	}
}

// governed is a program whose HTTP client is governed.
func (b *bubble) governed(by *client.Client) sends {
	b.Cleanup(func() { testkit.OK(b.T, by.Close()) })
	opt := govhttp.Options{Caller: func(r *http.Request) govhttp.Caller { return govhttp.ByKey(r) }}
	c := &http.Client{Transport: govhttp.Transport(by, harness.RoundTripperFunc(b.answers), opt)}
	return func(path, body string) bool {
		ctx, end := b.patience(body)
		defer end()
		req := testkit.Must(http.NewRequestWithContext(ctx, http.MethodPost, "http://model/v1"+path, strings.NewReader(body)))(b.T)
		req.Header.Set("Authorization", "Bearer a")
		req.Header.Set("Content-Type", "application/json")
		resp, err := c.Do(req)
		if err != nil {
			return ctx.Err() != nil
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode == http.StatusOK
	}
}

// listen serves the admission listener, and returns the way to it.
func (b *bubble) listen() *pipenet.Listener {
	cfg := b.Config()
	ctl := admissiontest.Counting(b.T, testkit.Must(tenants.Build(cfg, b.Tenants))(b.T), b.Prompts)
	log := slog.New(slog.DiscardHandler)
	book := reserve.New(reserve.Options{Door: inprocess.New(ctl), Tenant: ctl.TenantOf, Most: 1000, Idle: cfg.Timeouts.StreamIdle})
	server := admissionserver.New(admissionserver.Options{Token: AdmissionToken, Tenant: ctl.TenantOf, Log: log})
	reserveserver.Register(server, book)
	extproc.New(extproc.Options{Admission: ctl, MostCalls: 1000, Log: log}).Register(server)
	names, _ := ratelimit.ParseNames("")
	ratelimit.New(ratelimit.Options{Names: names, Book: book, Admission: ctl}).Register(server)
	l := pipenet.Listen()
	go func() { _ = server.Serve(l) }() // ends with Close
	b.Cleanup(func() {
		if running, waiting := ctl.Governor().Leases(); running+waiting+book.Open() != 0 {
			b.Errorf("%d leases, %d calls in line and %d reservations are left", running, waiting, book.Open())
		}
		book.Close()
		server.Close()
	})
	return l
}

func overPipe(l *pipenet.Listener) grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.Dial(ctx, "", "") })
}

// dial connects to the admission listener as proxies do.
func (b *bubble) dial() *grpc.ClientConn {
	conn := testkit.Must(grpc.NewClient("passthrough:///llmgov:9091", grpc.WithTransportCredentials(insecure.NewCredentials()), overPipe(b.listen())))(b.T)
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (b *bubble) trusted() context.Context {
	return metadata.AppendToOutgoingContext(b.Context(), "authorization", "Bearer "+AdmissionToken)
}

func (b *bubble) reservations(token string) *jsonDoor {
	way := &http.Transport{DialContext: b.listen().Dial, MaxIdleConnsPerHost: 100, IdleConnTimeout: 30 * time.Second} // before the server closes any
	b.Cleanup(way.CloseIdleConnections)
	return &jsonDoor{base: "http://llmgov:9091/v1/reservations", token: token, http: &http.Client{Transport: way}}
}

// told is a program that tells of the prompt its bytes, and names the tenant by its name or key.
func (b *bubble) told(d *jsonDoor, by string) sends {
	return func(_, body string) bool {
		ask := map[string]any{by: "a", "model": "m", "input_bytes": len(body), "ttl_seconds": 60}
		if bound := bound(body); bound > 0 {
			ask["max_output_tokens"] = bound
		}
		var held struct {
			ID string `json:"reservation_id"`
		}
		if err := d.ask(b.Context(), "", ask, &held); err != nil {
			return false
		}
		u := b.provide(body)
		end := map[string]any{"outcome": "completed", "usage": map[string]any{"input_tokens": u.input, "output_tokens": u.output}}
		if body == b.broken {
			end = map[string]any{"outcome": "cancelled"}
		}
		testkit.OK(b.T, d.ask(b.Context(), "/"+held.ID+"/commit", end, &struct{}{}))
		return true
	}
}

// bound is the most that the answer may have; 0 if the body does not say.
func bound(body string) int64 {
	return max(gjson.Get(body, "max_tokens").Int(), gjson.Get(body, "max_output_tokens").Int())
}

// extProc is Envoy that shows bodies, or metadata, of calls with a Content-Length or without.
func (b *bubble) extProc(conn *grpc.ClientConn, byMetadata, length bool) sends {
	return func(path, body string) bool {
		ctx, end := context.WithCancel(b.trusted())
		defer end()
		stream := testkit.Must(extprocv3.NewExternalProcessorClient(conn).Process(ctx))(b.T)
		ask := func(m *extprocv3.ProcessingRequest) *extprocv3.ProcessingResponse {
			testkit.OK(b.T, stream.Send(m))
			return testkit.Must(stream.Recv())(b.T)
		}
		pairs := []string{":method", "POST", ":path", "/v1" + path, "content-type", contentType(body), "authorization", "Bearer a"}
		if length {
			pairs = append(pairs, "content-length", strconv.Itoa(len(body)))
		}
		m := &extprocv3.ProcessingRequest{
			Request:        &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{Headers: headers(pairs...)}},
			ProtocolConfig: &extprocv3.ProtocolConfiguration{RequestBodyMode: procv3.ProcessingMode_NONE},
		}
		if byMetadata {
			m.MetadataContext = typed(b.T, &aiv3.RequestInfo{
				Model: "m", MaxOutputTokens: wrapperspb.UInt64(uint64(bound(body))), EstimatedInputTokens: wrapperspb.UInt64(uint64(len(body) / 4)),
			})
		} else {
			m.ProtocolConfig.RequestBodyMode = procv3.ProcessingMode_BUFFERED
			ask(m)
			m = &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestBody{RequestBody: &extprocv3.HttpBody{Body: []byte(body), EndOfStream: true}}}
		}
		if ask(m).GetImmediateResponse() != nil {
			return false
		}
		u := b.provide(body)
		if body == b.broken {
			return true
		}
		ask(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extprocv3.HttpHeaders{Headers: headers(":status", "200", "content-type", "application/json")}}})
		last := &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseBody{ResponseBody: &extprocv3.HttpBody{Body: []byte(u.answer()), EndOfStream: true}}}
		if byMetadata {
			last = &extprocv3.ProcessingRequest{
				Request: &extprocv3.ProcessingRequest_ResponseTrailers{ResponseTrailers: &extprocv3.HttpTrailers{}},
				MetadataContext: typed(b.T, &aiv3.TokenUsage{
					InputTokens: wrapperspb.UInt64(uint64(u.input)), OutputTokens: wrapperspb.UInt64(uint64(u.output)), ExtractionStatus: aiv3.TokenUsage_COMPLETE,
				}),
			}
		}
		ask(last)
		return true
	}
}

func headers(pairs ...string) *corev3.HeaderMap {
	m := new(corev3.HeaderMap)
	for i := 0; i < len(pairs); i += 2 {
		m.Headers = append(m.Headers, &corev3.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])})
	}
	return m
}

func typed(t *testing.T, v proto.Message) *corev3.Metadata {
	return &corev3.Metadata{TypedFilterMetadata: map[string]*anypb.Any{"x": testkit.Must(anypb.New(v))(t)}}
}

// rateLimit is Envoy that asks the rate limit service. It guesses the tokens of prompts by so many bytes, or not if these are 0.
func (b *bubble) rateLimit(conn *grpc.ClientConn, bytes int) sends {
	s := ratelimitv3.NewRateLimitServiceClient(conn)
	count := func(hits int64, pairs ...string) *commonv3.RateLimitDescriptor {
		d := &commonv3.RateLimitDescriptor{HitsAddend: wrapperspb.UInt64(uint64(hits))}
		for i := 0; i < len(pairs); i += 2 {
			d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
		}
		return d
	}
	ask := func(list ...*commonv3.RateLimitDescriptor) *ratelimitv3.RateLimitResponse {
		return testkit.Must(s.ShouldRateLimit(b.trusted(), &ratelimitv3.RateLimitRequest{Domain: "llmgov", Descriptors: list}))(b.T)
	}
	return func(_, body string) bool {
		list := []*commonv3.RateLimitDescriptor{count(0, "key", "a", "model", "m"), count(bound(body), "llmgov_count", "output")}
		if bytes > 0 {
			list = append(list, count(int64(len(body)/bytes), "llmgov_count", "input"))
		}
		r := ask(list...)
		if r.OverallCode != ratelimitv3.RateLimitResponse_OK {
			return false
		}
		lease := r.RequestHeadersToAdd[0].Value
		u := b.provide(body)
		if body == b.broken {
			ask(count(0, "llmgov_lease", lease, "llmgov_count", "status"))
			return true
		}
		ask(count(200, "llmgov_lease", lease, "llmgov_count", "status"), count(u.input, "llmgov_lease", lease, "llmgov_count", "input"), count(u.output, "llmgov_lease", lease, "llmgov_count", "output"))
		return true
	}
}
