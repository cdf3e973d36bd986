// Package otlp exports the spans of calls, and metrics, by OpenTelemetry's SDK and its protocol OTLP, as the standard OTEL_* variables
// configure. Programs that trace otherwise, or not at all, do not link it.
package otlp

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

	"github.com/llmgov/llmgov/internal/ops/tracing"
)

// Options describe this process.
type Options struct {
	Version, Node string
	Log           *slog.Logger
}

// signal is one of the things that OpenTelemetry sends, by its name in variables.
type signal struct{ variable, not string }

var (
	traces  = signal{"TRACES", "no tracing"}
	metrics = signal{"METRICS", "no metrics by OTLP"}
)

// Start begins to trace if the environment configures it, by an endpoint for OTLP or by
// OTEL_TRACES_EXPORTER=otlp, else it returns nil. The environment is the process's, because
// OpenTelemetry's own packages read no other. Unsupported settings are logged and ignored, as
// the specification demands: a variable for all processes of a cluster must not stop a gateway.
func Start(ctx context.Context, opt Options) (*tracing.Tracer, error) {
	if !traces.wanted(opt.Log) {
		return nil, nil
	}
	if p := os.Getenv("OTEL_PROPAGATORS"); p != "" && !strings.Contains(p, "tracecontext") {
		opt.Log.Warn("OTEL_PROPAGATORS is ignored: traces are continued and passed on by traceparent alone", "value", p)
	}
	redirectErrors(opt.Log)
	exporter, err := newExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	return tracing.New(sdktrace.NewTracerProvider(sdktrace.WithResource(who(ctx, opt)), sdktrace.WithBatcher(exporter))), nil
}

// who says who sends.
func who(ctx context.Context, opt Options) *resource.Resource {
	who, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName("llmgov"), semconv.ServiceVersion(opt.Version), semconv.ServiceInstanceID(opt.Node)),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv()) // last, because the last one wins
	if err != nil {
		opt.Log.Warn("OTEL_RESOURCE_ATTRIBUTES is partly invalid", "error", err.Error())
	}
	return who
}

func newExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	if _, p := traces.protocol(); p == "grpc" {
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx) // which reads the format, protobuf or JSON, itself
}

func (s signal) wanted(log *slog.Logger) bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	name := "OTEL_" + s.variable + "_EXPORTER"
	exporter := os.Getenv(name)
	switch exporter {
	case "otlp":
	case "": // a collector of traces need not take metrics
		if s != traces || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
			return false
		}
	case "none":
		return false
	default:
		log.Warn(s.not+": "+name+" must be otlp or none", "value", exporter)
		return false
	}
	if name, p := s.protocol(); p != "http/protobuf" && p != "http/json" && p != "grpc" {
		log.Warn(s.not+": "+name+" must be http/protobuf, http/json or grpc", "value", p)
		return false
	}
	return true
}

// protocol is what spans or metrics are sent by, and the variable that says so.
func (s signal) protocol() (name, value string) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_" + s.variable + "_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if p := os.Getenv(name); p != "" {
			return name, p
		}
	}
	return "", "http/protobuf"
}
