package otlp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/ops/tracing"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"go.opentelemetry.io/otel"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// variables are those that decide, so that those of who runs the test do not.
var variables = []string{
	"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
	"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TIMEOUT",
	"OTEL_METRICS_EXPORTER", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_PROPAGATORS", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES",
}

func setAll(t *testing.T, vars map[string]string) {
	t.Helper()
	for _, name := range variables {
		t.Setenv(name, vars[name])
	}
}

// start starts a Tracer, and returns what it logs.
func start(t *testing.T) (*tracing.Tracer, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	tr := testkit.Must(Start(t.Context(), Options{Version: "v1.2.3", Node: "n1", Log: slog.New(slog.NewTextHandler(log, nil))}))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		_ = tr.Shutdown(ctx)
	})
	return tr, log
}

func TestOptIn(t *testing.T) {
	const nowhere = "http://127.0.0.1:1"
	for name, c := range map[string]struct {
		vars map[string]string
		on   bool
		says string
	}{
		"nothing":               {},
		"a name alone":          {vars: map[string]string{"OTEL_SERVICE_NAME": "x"}},
		"an endpoint":           {vars: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": nowhere}, on: true},
		"an own endpoint":       {vars: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": nowhere}, on: true},
		"an exporter":           {vars: map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, on: true},
		"none":                  {vars: map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": nowhere}},
		"disabled":              {vars: map[string]string{"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": nowhere}},
		"another exporter":      {vars: map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, says: "OTEL_TRACES_EXPORTER must be otlp or none"},
		"another protocol":      {vars: map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "udp"}, says: "OTEL_EXPORTER_OTLP_PROTOCOL must be"},
		"another own":           {vars: map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "udp"}, says: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL must be"},
		"another propagator":    {vars: map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_PROPAGATORS": "b3"}, on: true, says: "OTEL_PROPAGATORS is ignored"},
		"the usual propagators": {vars: map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_PROPAGATORS": "tracecontext,baggage"}, on: true},
	} {
		t.Run(name, func(t *testing.T) {
			setAll(t, c.vars)
			tr, log := start(t)
			if on := tr != nil; on != c.on {
				t.Errorf("it traces: %v", on)
			}
			if !strings.Contains(log.String(), c.says) || c.says == "" && log.Len() > 0 {
				t.Errorf("it says %q, want %q", log, c.says)
			}
		})
	}
}

// receiver is a collector. Each request that comes is in got.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	got  chan *collector.ExportTraceServiceRequest
	keys chan string
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	one := &collector.ExportTraceServiceRequest{}
	var err error
	if req.Header.Get("Content-Type") == "application/json" {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, one)
	} else {
		err = proto.Unmarshal(body, one)
	}
	if err != nil || req.URL.Path != "/v1/traces" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.keys <- req.Header.Get("Content-Type") + " " + req.Header.Get("Api-Key")
	r.got <- one
}

func (r *receiver) Export(ctx context.Context, one *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	r.keys <- "grpc " + strings.Join(md.Get("api-key"), "")
	r.got <- one
	return &collector.ExportTraceServiceResponse{}, nil
}

// Spans reach a collector by every protocol that there is, with who sent them, and the
// last ones when the tracing ends.
func TestSpansReachACollector(t *testing.T) {
	r := &receiver{got: make(chan *collector.ExportTraceServiceRequest, 1), keys: make(chan string, 1)}
	overHTTP := httptest.NewServer(r)
	defer overHTTP.Close()
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	overGRPC := grpc.NewServer()
	collector.RegisterTraceServiceServer(overGRPC, r)
	go func() { _ = overGRPC.Serve(l) }()
	defer overGRPC.Stop()

	for protocol, c := range map[string]struct{ endpoint, came string }{
		"":              {overHTTP.URL, "application/x-protobuf k1"},
		"http/protobuf": {overHTTP.URL, "application/x-protobuf k1"},
		"http/json":     {overHTTP.URL, "application/json k1"},
		"grpc":          {"http://" + l.Addr().String(), "grpc k1"},
	} {
		t.Run(protocol, func(t *testing.T) {
			setAll(t, map[string]string{
				"OTEL_EXPORTER_OTLP_ENDPOINT": c.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_HEADERS": "api-key=k1",
				"OTEL_SERVICE_NAME": "mine", "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
			})
			tr, log := start(t)
			call := tr.Begin(httptest.NewRequest(http.MethodPost, "/v1/embeddings", nil), time.Now())
			call.End(tracing.End{Method: http.MethodPost, Route: "/v1/embeddings", Status: 200, Outcome: "ok"})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := tr.Shutdown(ctx); err != nil {
				t.Fatalf("%v %s", err, log)
			}
			if came := <-r.keys; came != c.came {
				t.Errorf("it came as %q", came)
			}
			sent := (<-r.got).ResourceSpans[0]
			span := sent.ScopeSpans[0].Spans[0]
			if span.Name != "POST /v1/embeddings" || call.TraceID() == "" {
				t.Errorf("the span is %v", span)
			}
			for key, want := range map[string]string{
				"service.name": "mine", "service.version": "v1.2.3", "service.instance.id": "n1", "telemetry.sdk.name": "opentelemetry", "deployment.environment.name": "test",
			} {
				if got := textOf(sent.Resource.Attributes, key); got != want {
					t.Errorf("%s is %q, want %q", key, got, want)
				}
			}
		})
	}
}

func textOf(attrs []*common.KeyValue, key string) string {
	for _, a := range attrs {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// A collector that is not there is told of once a minute, and then with how often.
func TestTroublesAreToldSeldom(t *testing.T) {
	now := time.Now()
	log := &bytes.Buffer{}
	tr := &troubles{log: slog.New(slog.NewTextHandler(log, nil)), now: func() time.Time { return now }}
	for range 13 {
		tr.Handle(errors.New("connection refused"))
		now = now.Add(5 * time.Second)
	}
	if n := strings.Count(log.String(), "spans or metrics are lost"); n != 2 || !strings.Contains(log.String(), "also_since_last_told=11") {
		t.Errorf("%d lines:\n%s", n, log)
	}
}

// What is wrong with a setting is told, and not what it says: it may be a key.
func TestSettingsAreNotTold(t *testing.T) {
	setAll(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_HEADERS": "a-secret-without-its-name"})
	defer otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	_, log := start(t)
	if text := log.String(); !strings.Contains(text, "OpenTelemetry: parse headers") || strings.Contains(text, "secret") {
		t.Errorf("it says %q", text)
	}
}
