// Package otlp exports the spans of calls by OpenTelemetry's SDK and its protocol OTLP, as the standard OTEL_* variables
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

// Start begins to trace if the environment configures it, by an endpoint for OTLP or by
// OTEL_TRACES_EXPORTER=otlp, else it returns nil. The environment is the process's, because
// OpenTelemetry's own packages read no other. Unsupported settings are logged and ignored, as
// the specification demands: a variable for all processes of a cluster must not stop a gateway.
func Start(ctx context.Context, opt Options) (*tracing.Tracer, error) {
	if !wanted(opt.Log) {
		return nil, nil
	}
	redirectErrors(opt.Log)
	exporter, err := newExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	who, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName("llmgov"), semconv.ServiceVersion(opt.Version), semconv.ServiceInstanceID(opt.Node)),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv()) // last, because the last one wins
	if err != nil {
		opt.Log.Warn("OTEL_RESOURCE_ATTRIBUTES is partly invalid", "error", err.Error())
	}
	return tracing.New(sdktrace.NewTracerProvider(sdktrace.WithResource(who), sdktrace.WithBatcher(exporter))), nil
}

func newExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	if _, p := protocol(); p == "grpc" {
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx) // which reads the format, protobuf or JSON, itself
}

// wanted reports whether the environment configures tracing that is supported.
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
		log.Warn("OTEL_PROPAGATORS is ignored: traces are continued and passed on by traceparent alone", "value", p)
	}
	return true
}

// protocol is the protocol of the export, and the variable that sets it.
func protocol() (name, value string) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if p := os.Getenv(name); p != "" {
			return name, p
		}
	}
	return "", "http/protobuf"
}
