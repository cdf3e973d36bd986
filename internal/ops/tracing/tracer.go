package tracing

import (
	"context"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Tracer makes the spans of calls. A nil Tracer makes none.
type Tracer struct {
	provider Provider
	tracer   trace.Tracer
}

// Provider makes spans and exports them, as OpenTelemetry's SDK does. Shutdown sends the remaining ones until ctx ends.
type Provider interface {
	trace.TracerProvider
	Shutdown(ctx context.Context) error
}

// New returns a Tracer of a Provider.
func New(p Provider) *Tracer {
	return &Tracer{p, p.Tracer("github.com/llmgov/llmgov", trace.WithSchemaURL(semconv.SchemaURL))}
}

// Shutdown sends the remaining spans until ctx ends, and ends the tracing.
func (t *Tracer) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}
