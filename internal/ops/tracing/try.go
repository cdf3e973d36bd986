package tracing

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Target is the upstream and the request of a try.
type Target struct {
	Number    int // from 1 on
	Upstream  string
	Provider  string // the conventions' name for the kind of upstream
	Base      *url.URL
	Method    string
	Route     string
	Operation string // the conventions' name for the route, if it is one of inference
	Model     string
	Stream    bool
	// MaxTokens bounds each of so many Choices; 0 if the request sets none.
	MaxTokens, Choices int64
}

// Try is the span of a call's way to one upstream. A nil Try has none.
type Try struct {
	ctx  context.Context
	span trace.Span
}

// Try begins the span of a try.
func (c *Call) Try(t Target) *Try {
	if c == nil {
		return nil
	}
	if !c.span.IsRecording() { // then neither are its children, and upstreams get the call's own span
		return &Try{c.ctx, trace.SpanFromContext(context.Background())}
	}
	name := method(t.Method) + " " + t.Route
	set := make([]attribute.KeyValue, 0, 12)
	if op := t.Operation; op != "" {
		name = op + " " + t.Model
		set = append(set, operationName.String(op))
	}
	if t.Model != "" {
		set = append(set, requestModel.String(t.Model))
	}
	set = append(set, providerName.String(t.Provider), upstreamName.String(t.Upstream), tryNumber.Int(t.Number),
		semconv.ServerAddress(t.Base.Hostname()), semconv.ServerPort(port(t.Base)), semconv.HTTPRequestMethodKey.String(method(t.Method)))
	if t.Stream {
		set = append(set, requestStream.Bool(true))
	}
	if t.MaxTokens > 0 {
		set = append(set, requestMax.Int64(t.MaxTokens))
	}
	if t.Choices > 1 {
		set = append(set, requestChoices.Int64(t.Choices))
	}
	ctx, span := c.tracer.Start(c.ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(set...))
	return &Try{ctx, span}
}

func port(u *url.URL) int {
	if n, err := strconv.Atoi(u.Port()); err == nil {
		return n
	}
	if u.Scheme == "http" {
		return 80
	}
	return 443
}

// Inject writes the headers of the try, in place of the caller's.
func (t *Try) Inject(h http.Header) {
	if t == nil {
		return
	}
	delete(h, "Traceparent")
	delete(h, "Tracestate")
	w3c.Inject(t.ctx, propagation.HeaderCarrier(h))
}

// Answered records the outcome of a try: a status, or 0 without an answer, the verdict on the
// upstream, and the failure if it failed. A failed try ends with it.
func (t *Try) Answered(status int, said, failure string, ends bool) {
	if t == nil {
		return
	}
	t.span.SetAttributes(tryOutcome.String(said))
	if status != 0 {
		t.span.SetAttributes(semconv.HTTPResponseStatusCode(status))
	}
	t.fail(failure)
	if ends {
		t.span.End()
	}
}

func (t *Try) fail(failure string) {
	if failure != "" {
		t.span.SetAttributes(semconv.ErrorTypeKey.String(failure))
		t.span.SetStatus(codes.Error, "")
	}
}

// Took is the usage of a call that has ended.
type Took struct {
	Input, CachedInput, Output, Reasoning int64
	Estimated                             bool
	FirstChunk                            time.Duration // since the try began; 0 without a stream
	Failure                               string        // after the beginning of an answer
}

// End ends the try whose answer was passed on.
func (t *Try) End(took Took) {
	if t == nil {
		return
	}
	defer t.span.End()
	if !t.span.IsRecording() {
		return
	}
	if took.Input+took.Output > 0 {
		t.span.SetAttributes(inputTokens.Int64(took.Input), outputTokens.Int64(took.Output))
	}
	if took.CachedInput > 0 {
		t.span.SetAttributes(cachedTokens.Int64(took.CachedInput))
	}
	if took.Reasoning > 0 {
		t.span.SetAttributes(reasoningTokens.Int64(took.Reasoning))
	}
	if took.Estimated {
		t.span.SetAttributes(estimated.Bool(true))
	}
	if took.FirstChunk > 0 {
		t.span.SetAttributes(firstChunk.Float64(took.FirstChunk.Seconds()))
	}
	t.fail(took.Failure)
}
