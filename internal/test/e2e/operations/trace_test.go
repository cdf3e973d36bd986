package operations

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/ops/tracing"
	"github.com/llmgov/llmgov/internal/proxy/gateway"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/admissiontest"
	"github.com/llmgov/llmgov/tenants"
)

// headersOf is an upstream that keeps the headers of its calls.
type headersOf struct {
	http.Handler
	mu   sync.Mutex
	seen []http.Header
}

func (h *headersOf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.seen = append(h.seen, r.Header.Clone())
	h.mu.Unlock()
	h.Handler.ServeHTTP(w, r)
}

const (
	callersTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	callersSpan  = "00f067aa0ba902b7"
)

// A caller's trace is continued and passed on, each try as itself; baggage is not. Whether
// it is recorded is the caller's to say; what it says wrong begins a new one.
func TestTraceIsContinued(t *testing.T) {
	for name, c := range map[string]struct {
		off               bool
		traceparent       string
		continued, record bool
	}{
		"sampled":     {traceparent: "00-" + callersTrace + "-" + callersSpan + "-01", continued: true, record: true},
		"not sampled": {traceparent: "00-" + callersTrace + "-" + callersSpan + "-00", continued: true},
		"malformed":   {traceparent: "00-" + callersTrace + "-01", record: true},
		"none":        {record: true},
		"no tracing":  {off: true, traceparent: "00-" + callersTrace + "-" + callersSpan + "-01", continued: true},
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			server := testkit.Must(mock.New(mock.Config{}))(t)
			up := &headersOf{Handler: server}
			spans := tracetest.NewSpanRecorder()
			lines := &bytes.Buffer{}
			w := harness.World{
				Pool: harness.PoolOf(1, 1000), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Log: slog.NewJSONHandler(lines, nil),
				Upstreams: map[string]http.Handler{"up1": &headersOf{Handler: harness.Status(500)}},
			}
			w.Pool.Upstreams[0].Name = "up2"
			w.Upstreams["up2"] = up
			if !c.off {
				w.Tracer = tracing.New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
			}
			s := harness.New(t, w)
			s.Call(t.Context(), "a", harness.Chat(false, 5, ""), "Traceparent", c.traceparent, "Tracestate", "x=y", "Baggage", "user=7")

			h := up.seen[0]
			if h.Get("Baggage") != "" {
				t.Error("baggage reached the upstream")
			}
			got := h.Get("Traceparent")
			want := c.traceparent
			if !c.off {
				want = traceparentOf(spans.Ended(), 2)
			}
			if c.record && got != want || c.off && got != want {
				t.Errorf("the upstream got %q, want %q", got, want)
			}
			if strings.Contains(got, callersTrace) != c.continued || c.continued && h.Get("Tracestate") != "x=y" || !c.continued && h.Get("Tracestate") != "" {
				t.Errorf("the upstream got %q and %q", got, h.Get("Tracestate"))
			}
			if !c.off && !c.record && (!strings.HasSuffix(got, "-00") || len(spans.Ended()) != 0) {
				t.Errorf("the upstream got %q, and there are %d spans", got, len(spans.Ended()))
			}
			if logged := strings.Contains(lines.String(), `"trace_id":"`+callersTrace); logged != (c.continued && !c.off) {
				t.Errorf("the log says %s", lines)
			}
			if shown := strings.Contains(openMetrics(s), "trace_id="); shown != c.record {
				t.Errorf("exemplars: %v", shown)
			}
		})
	}
}

// traceparentOf is what the nth try tells.
func traceparentOf(spans []sdktrace.ReadOnlySpan, n int) string {
	for _, span := range spans {
		for _, a := range span.Attributes() {
			if a.Key == "llmgov.try" && a.Value.AsInt64() == int64(n) && span.SpanKind() == trace.SpanKindClient {
				return "00-" + span.SpanContext().TraceID().String() + "-" + span.SpanContext().SpanID().String() + "-01"
			}
		}
	}
	return "no such try"
}

// openMetrics is what a scraper gets that reads exemplars.
func openMetrics(s *harness.Stack) string {
	s.T.Helper()
	r := testkit.Must(http.NewRequest(http.MethodGet, "/metrics", nil))(s.T)
	r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	w := &recorded{header: http.Header{}}
	s.Metrics.Handler().ServeHTTP(w, r)
	return w.String()
}

type recorded struct {
	bytes.Buffer
	header http.Header
}

func (r *recorded) Header() http.Header { return r.header }
func (r *recorded) WriteHeader(int)     {}

// Each latency of a call that is traced leads to its trace.
func TestExemplars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := harness.World{Mock: mock.Config{FirstToken: time.Second, TokensPerSecond: 100}, Pool: harness.Pool(0, 0, 10), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}}
		w.Tracer = tracing.New(sdktrace.NewTracerProvider())
		s := harness.New(t, w)
		s.Call(t.Context(), "a", harness.Chat(true, 5, ""), "Traceparent", "00-"+callersTrace+"-"+callersSpan+"-01")
		text := openMetrics(s)
		for _, metric := range []string{"queue_wait_seconds", "time_to_first_token_seconds", "request_duration_seconds", "overhead_seconds"} {
			found := false
			for line := range strings.Lines(text) {
				found = found || strings.HasPrefix(line, "llmgov_"+metric+"_bucket{") && strings.Contains(line, ` # {trace_id="`+callersTrace+`"} `)
			}
			if !found {
				t.Errorf("%s has no exemplar", metric)
			}
		}
		if !strings.HasSuffix(text, "# EOF\n") {
			t.Errorf("it ends with %q", text[max(0, len(text)-40):])
		}
	})
}

// still answers at once, without a network.
type still struct{}

func (still) RoundTrip(r *http.Request) (*http.Response, error) {
	const answer = `{"id":"c","object":"chat.completion","model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14}}`
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: int64(len(answer)),
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(answer)),
	}, nil
}

// thrown takes spans, and throws them away.
type thrown struct{}

func (thrown) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (thrown) Shutdown(context.Context) error                             { return nil }

// What a call costs without a network: with a log or without one, untraced, traced and
// not recorded, recorded.
func BenchmarkCall(b *testing.B) {
	toNowhere := slog.NewJSONHandler(io.Discard, nil)
	for _, c := range []struct {
		name   string
		log    slog.Handler
		tracer func() *tracing.Tracer
	}{
		{"silent", slog.DiscardHandler, func() *tracing.Tracer { return nil }},
		{"logged", toNowhere, func() *tracing.Tracer { return nil }},
		{"traced, not recorded", toNowhere, func() *tracing.Tracer {
			return tracing.New(sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())))
		}},
		{"recorded", toNowhere, func() *tracing.Tracer { return tracing.New(sdktrace.NewTracerProvider(sdktrace.WithBatcher(thrown{}))) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := harness.World{Pool: harness.Pool(0, 1e9, 1000)}
			tracer := c.tracer()
			defer tracer.Shutdown(context.Background())
			g := testkit.Must(gateway.New(gateway.Options{Admission: admissiontest.Build(b, w.Config(), harness.Tenant("a", 1)), Log: slog.New(c.log), Tracer: tracer, Transport: still{}}))(b)
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(harness.Chat(false, 5, "")))
				r.Header.Set("Authorization", "Bearer a")
				w := httptest.NewRecorder()
				g.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					b.Fatal(w.Body.String())
				}
			}
		})
	}
}
