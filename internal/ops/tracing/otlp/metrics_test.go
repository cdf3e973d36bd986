package otlp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// meters is a collector of metrics.
type meters struct {
	collector.UnimplementedMetricsServiceServer
	got chan *collector.ExportMetricsServiceRequest
}

func (m *meters) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	one := &collector.ExportMetricsServiceRequest{}
	if err := proto.Unmarshal(body, one); err != nil || req.URL.Path != "/v1/metrics" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	m.got <- one
}

func (m *meters) Export(_ context.Context, one *collector.ExportMetricsServiceRequest) (*collector.ExportMetricsServiceResponse, error) {
	m.got <- one
	return &collector.ExportMetricsServiceResponse{}, nil
}

// Metrics reach a collector that is asked for by either protocol, the last ones when the process ends: under their names, and under those of the
// conventions, by the same counters.
func TestMetricsReachACollector(t *testing.T) {
	m := &meters{got: make(chan *collector.ExportMetricsServiceRequest, 1)}
	overHTTP := httptest.NewServer(m)
	defer overHTTP.Close()
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	overGRPC := grpc.NewServer()
	collector.RegisterMetricsServiceServer(overGRPC, m)
	go func() { _ = overGRPC.Serve(l) }()
	defer overGRPC.Stop()
	registry := prometheus.NewRegistry()
	tokens := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "llmgov_tokens_total"}, []string{"tenant", "model", "kind"})
	took := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "llmgov_request_duration_seconds", NativeHistogramBucketFactor: 1.1})
	registry.MustRegister(tokens, took)
	for i, kind := range []string{"held", "input", "cached_input", "output", "reasoning"} {
		tokens.WithLabelValues("acme", "m", kind).Add(float64(10 + i))
	}
	took.Observe(2)
	for protocol, endpoint := range map[string]string{"": overHTTP.URL, "http/protobuf": overHTTP.URL, "grpc": "http://" + l.Addr().String()} {
		setAll(t, map[string]string{"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol})
		log := &bytes.Buffer{}
		sends := testkit.Must(StartMetrics(t.Context(), Options{Version: "v1.2.3", Node: "n1", Log: slog.New(slog.NewTextHandler(log, nil))}, registry))(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := sends.Shutdown(ctx); err != nil {
			t.Fatalf("%s: %v %s", protocol, err, log)
		}
		var got []string
		of := (<-m.got).ResourceMetrics[0]
		for _, scope := range of.ScopeMetrics {
			for _, one := range scope.Metrics {
				for _, p := range one.GetSum().GetDataPoints() {
					got = append(got, fmt.Sprint(one.Name, " ", p.GetAsDouble(), labelsOf(p.Attributes)))
				}
				for _, p := range one.GetExponentialHistogram().GetDataPoints() {
					got = append(got, fmt.Sprint(one.Name, " ", p.GetCount(), " of ", p.GetSum()))
				}
			}
		}
		slices.Sort(got)
		want := strings.Join([]string{
			"gen_ai.client.operation.duration 1 of 2",
			"gen_ai.client.token.usage 11 gen_ai.request.model=m gen_ai.token.type=input tenant=acme",
			"gen_ai.client.token.usage 13 gen_ai.request.model=m gen_ai.token.type=output tenant=acme",
			"llmgov_request_duration_seconds 1 of 2",
			"llmgov_tokens_total 10 kind=held model=m tenant=acme",
			"llmgov_tokens_total 11 kind=input model=m tenant=acme",
			"llmgov_tokens_total 12 kind=cached_input model=m tenant=acme",
			"llmgov_tokens_total 13 kind=output model=m tenant=acme",
			"llmgov_tokens_total 14 kind=reasoning model=m tenant=acme",
		}, "\n")
		if strings.Join(got, "\n") != want || textOf(of.Resource.Attributes, "service.instance.id") != "n1" {
			t.Errorf("by %q it got, of %v:\n%s", protocol, of.Resource, strings.Join(got, "\n"))
		}
	}
}

func labelsOf(list []*common.KeyValue) (text string) {
	var labels []string
	for _, l := range list {
		labels = append(labels, " "+l.Key+"="+l.Value.GetStringValue())
	}
	slices.Sort(labels)
	return strings.Join(labels, "")
}

// Metrics are sent only where a variable says so: a collector of traces need not take them.
func TestMetricsAreAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		vars map[string]string
		on   bool
		says string
	}{
		"an endpoint alone": {vars: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}},
		"none":              {vars: map[string]string{"OTEL_METRICS_EXPORTER": "none"}},
		"disabled":          {vars: map[string]string{"OTEL_METRICS_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"}},
		"asked for":         {vars: map[string]string{"OTEL_METRICS_EXPORTER": "otlp"}, on: true},
		"another exporter":  {vars: map[string]string{"OTEL_METRICS_EXPORTER": "prometheus"}, says: "OTEL_METRICS_EXPORTER must be otlp or none"},
		"another protocol":  {vars: map[string]string{"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "udp"}, says: "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL must be"},
	} {
		setAll(t, c.vars)
		log := &bytes.Buffer{}
		sends := testkit.Must(StartMetrics(t.Context(), Options{Log: slog.New(slog.NewTextHandler(log, nil))}, prometheus.NewRegistry()))(t)
		if on := sends != nil; on != c.on || !strings.Contains(log.String(), c.says) {
			t.Errorf("%s: it sends: %v, and says %q", name, on, log)
		}
		if sends != nil {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_ = sends.Shutdown(ctx)
			cancel()
		}
	}
}
