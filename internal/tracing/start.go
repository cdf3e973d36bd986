package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Tracer makes the spans of calls. A nil Tracer makes none.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// Options say who traces.
type Options struct {
	Version, Node string
	Log           *slog.Logger
}

// Start begins to trace if the environment asks for it, else it returns nil: with an
// endpoint for OTLP, or with OTEL_TRACES_EXPORTER=otlp. The environment is the process's,
// for OpenTelemetry's own packages read no other. What it asks for and cannot have is
// told of and left aside, as the specification wants it: no gateway fails for what
// somebody sets for all processes of a cluster.
func Start(ctx context.Context, opt Options) (*Tracer, error) {
	if !wanted(opt.Log) {
		return nil, nil
	}
	complain(opt.Log)
	exporter, err := newExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	who, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName("llmgov"), semconv.ServiceVersion(opt.Version), semconv.ServiceInstanceID(opt.Node)),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv()) // last, for the last one wins
	if err != nil {
		opt.Log.Warn("OTEL_RESOURCE_ATTRIBUTES cannot be read whole", "error", err.Error())
	}
	return New(sdktrace.WithResource(who), sdktrace.WithBatcher(exporter)), nil
}

func newExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	if _, p := protocol(); p == "grpc" {
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx) // reads by itself whether it is protobuf or JSON
}

// New returns a Tracer whose spans go where the options say.
func New(options ...sdktrace.TracerProviderOption) *Tracer {
	p := sdktrace.NewTracerProvider(options...)
	return &Tracer{p, p.Tracer("github.com/llmgov/llmgov", trace.WithSchemaURL(semconv.SchemaURL))}
}

// Shutdown sends what is left, as long as ctx lasts, and ends the tracing.
func (t *Tracer) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// wanted reports whether the environment asks for tracing that there is.
func wanted(log *slog.Logger) bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	exporter := os.Getenv("OTEL_TRACES_EXPORTER")
	switch exporter {
	case "otlp":
	case "":
		if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
			return false
		}
	case "none":
		return false
	default:
		log.Warn("no tracing: OTEL_TRACES_EXPORTER must be otlp or none", "value", exporter)
		return false
	}
	if name, p := protocol(); p != "http/protobuf" && p != "http/json" && p != "grpc" {
		log.Warn("no tracing: "+name+" must be http/protobuf, http/json or grpc", "value", p)
		return false
	}
	if p := os.Getenv("OTEL_PROPAGATORS"); p != "" && !strings.Contains(p, "tracecontext") {
		log.Warn("OTEL_PROPAGATORS is left aside: traces are continued and passed on by traceparent alone", "value", p)
	}
	return true
}

// protocol is how spans are sent, and the variable that says so.
func protocol() (name, value string) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if p := os.Getenv(name); p != "" {
			return name, p
		}
	}
	return "", "http/protobuf"
}
