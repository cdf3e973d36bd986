package operations

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/gateway"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/admissiontest"
	"github.com/llmgov/llmgov/internal/tracing"
)

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
		{"traced, not recorded", toNowhere, func() *tracing.Tracer { return tracing.New(sdktrace.WithSampler(sdktrace.NeverSample())) }},
		{"recorded", toNowhere, func() *tracing.Tracer { return tracing.New(sdktrace.WithBatcher(thrown{})) }},
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
