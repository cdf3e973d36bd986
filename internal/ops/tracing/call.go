package tracing

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// w3c is the format of trace headers, whatever OTEL_PROPAGATORS is, because providers and SDKs
// agree on it.
var w3c propagation.TraceContext

// Call has the spans of one call. A nil Call has none.
type Call struct {
	tracer trace.Tracer
	ctx    context.Context // of the span, for its children alone
	span   trace.Span
	id     string
}

// Begin begins the span of a call that arrived at a time.
func (t *Tracer) Begin(r *http.Request, came time.Time) *Call {
	if t == nil {
		return nil
	}
	ctx := w3c.Extract(context.Background(), propagation.HeaderCarrier(r.Header))
	ctx, span := t.tracer.Start(ctx, method(r.Method), trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(came),
		trace.WithAttributes(semconv.HTTPRequestMethodKey.String(method(r.Method)), semconv.URLPath(r.URL.Path)))
	return &Call{t.tracer, ctx, span, span.SpanContext().TraceID().String()}
}

// TraceID names the call's trace, whether or not it is recorded.
func (c *Call) TraceID() string {
	if c == nil {
		return ""
	}
	return c.id
}

// Exemplar is the id of the call's trace if it is recorded.
func (c *Call) Exemplar() string {
	if c == nil || !c.span.SpanContext().IsSampled() {
		return ""
	}
	return c.id
}

// Asked is an answer of the governor.
type Asked struct {
	Began        time.Time
	Tenant, Pool string
	Held         int64 // tokens
	Waited       time.Duration
	Outcome      string // admitted, refused or cancelled
	Shadow       bool   // it was admitted only because of shadow
	// Of a refusal: its reason, and the limit if there is one.
	Reason, Axis, Of   string
	Limit, Used, Tried int64
	RetryAfter         time.Duration
}

// Asked records an answer of the governor, which has just come.
func (c *Call) Asked(a Asked) {
	if c == nil || !c.span.IsRecording() {
		return
	}
	_, span := c.tracer.Start(c.ctx, "admit", trace.WithTimestamp(a.Began))
	defer span.End()
	span.SetAttributes(outcome.String(a.Outcome), tenant.String(a.Tenant), pool.String(a.Pool), heldTokens.Int64(a.Held), queued.Float64(a.Waited.Seconds()))
	if a.Reason == "" {
		return
	}
	span.SetAttributes(reason.String(a.Reason))
	if a.Shadow {
		span.SetAttributes(shadow.Bool(true))
	}
	if a.Limit > 0 {
		span.SetAttributes(axis.String(a.Axis), limitOf.String(a.Of), limitValue.Int64(a.Limit), limitUsed.Int64(a.Used), limitAsked.Int64(a.Tried))
	}
	if a.RetryAfter > 0 {
		span.SetAttributes(retryAfter.Float64(a.RetryAfter.Seconds()))
	}
}

// End is the outcome of a call.
type End struct {
	Method, Route         string // Route may be empty
	Status                int
	ID                    string
	Tenant, Key           string
	Pool, Model           string
	Outcome, Reason, Axis string
	Failed                bool // by the upstream or the gateway, and not by the caller
}

// End ends the call's span.
func (c *Call) End(e End) {
	if c == nil {
		return
	}
	defer c.span.End()
	if !c.span.IsRecording() {
		return
	}
	if name := method(e.Method); e.Route != "" {
		c.span.SetName(name + " " + e.Route)
		c.span.SetAttributes(semconv.HTTPRoute(e.Route))
	}
	set := make([]attribute.KeyValue, 0, 12)
	if e.Status != 0 {
		set = append(set, semconv.HTTPResponseStatusCode(e.Status))
	}
	for _, a := range []struct {
		key   attribute.Key
		value string
	}{
		{requestID, e.ID},
		{tenant, e.Tenant},
		{keyName, e.Key},
		{pool, e.Pool},
		{requestModel, e.Model},
		{outcome, e.Outcome},
		{reason, e.Reason},
		{axis, e.Axis},
	} {
		if a.value != "" {
			set = append(set, a.key.String(a.value))
		}
	}
	c.span.SetAttributes(set...)
	if e.Failed {
		c.span.SetAttributes(semconv.ErrorTypeKey.String(e.Reason))
		c.span.SetStatus(codes.Error, "")
	}
}

// method is a known method, or _OTHER, because callers must not choose names of spans.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return m
	}
	return "_OTHER"
}
