package otlp

import (
	"context"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// StartMetrics sends what a registry gathers, as often as OTEL_METRIC_EXPORT_INTERVAL says, and once more at Shutdown. It returns nil unless
// OTEL_METRICS_EXPORTER=otlp, because a collector of traces need not take metrics.
func StartMetrics(ctx context.Context, opt Options, from prometheus.Gatherer) (*sdkmetric.MeterProvider, error) {
	if !metrics.wanted(opt.Log) {
		return nil, nil
	}
	redirectErrors(opt.Log)
	exporter, err := newMetricExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	reader := sdkmetric.NewPeriodicReader(exporter, sdkmetric.WithProducer(named{bridge.NewMetricProducer(bridge.WithGatherer(from))}))
	return sdkmetric.NewMeterProvider(sdkmetric.WithResource(who(ctx, opt)), sdkmetric.WithReader(reader)), nil
}

func newMetricExporter(ctx context.Context) (sdkmetric.Exporter, error) {
	if _, p := metrics.protocol(); p == "grpc" {
		return otlpmetricgrpc.New(ctx)
	}
	return otlpmetrichttp.New(ctx)
}

// named adds metrics under the names that OpenTelemetry has for calls of models. They are the same counters.
type named struct{ sdkmetric.Producer }

func (n named) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	scopes, err := n.Producer.Produce(ctx)
	for i := range scopes {
		for _, m := range scopes[i].Metrics {
			if m, ok := conventional(m); ok {
				scopes[i].Metrics = append(scopes[i].Metrics, m)
			}
		}
	}
	return scopes, err
}

// conventional is the metric as the conventions name it; false if they name none. They are still in development; see package tracing.
func conventional(m metricdata.Metrics) (metricdata.Metrics, bool) {
	switch m.Name {
	case "llmgov_request_duration_seconds":
		m.Name = "gen_ai.client.operation.duration"
		m.Unit = "s"
	case "llmgov_time_to_first_token_seconds":
		m.Name = "gen_ai.client.operation.time_to_first_chunk"
		m.Unit = "s"
	case "llmgov_tokens_total":
		sum, ok := m.Data.(metricdata.Sum[float64])
		if !ok {
			return m, false
		}
		m.Name = "gen_ai.client.token.usage"
		m.Unit = "{token}"
		sum.DataPoints = slices.Clone(sum.DataPoints)
		sum.DataPoints = slices.DeleteFunc(sum.DataPoints, func(p metricdata.DataPoint[float64]) bool {
			kind, _ := p.Attributes.Value("kind")
			return kind.AsString() != "input" && kind.AsString() != "output" // others are held, or parts of these
		})
		for i := range sum.DataPoints {
			sum.DataPoints[i].Attributes = conventionalLabels(sum.DataPoints[i].Attributes)
		}
		m.Data = sum
	default:
		return m, false
	}
	return m, true
}

// conventionalLabels names the labels that the conventions know.
func conventionalLabels(labels attribute.Set) attribute.Set {
	list := labels.ToSlice()
	for i := range list {
		switch list[i].Key {
		case "kind":
			list[i].Key = "gen_ai.token.type"
		case "model":
			list[i].Key = "gen_ai.request.model"
		}
	}
	return attribute.NewSet(list...)
}
