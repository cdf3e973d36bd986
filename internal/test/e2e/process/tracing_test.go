package process

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
)

// spans is a collector. Late is how long it takes to answer, but about metrics.
type spans struct {
	late    time.Duration
	mu      sync.Mutex
	got     []*tracepb.Span
	who     string
	metrics int // how often some came
}

func (s *spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if r.URL.Path == "/v1/metrics" {
		s.mu.Lock()
		s.metrics++
		s.mu.Unlock()
		return
	}
	one := &collector.ExportTraceServiceRequest{}
	if err != nil || proto.Unmarshal(body, one) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	for _, rs := range one.ResourceSpans {
		s.who = rs.Resource.String()
		for _, ss := range rs.ScopeSpans {
			s.got = append(s.got, ss.Spans...)
		}
	}
	s.mu.Unlock()
	select {
	case <-time.After(s.late):
	case <-r.Context().Done():
	}
}

// traced starts a gateway with such variables.
func traced(t *testing.T, vars ...string) *processtest.Process {
	t.Helper()
	dir := newFolder(t, upstream(t), "concurrency: 10", "")
	return processtest.Command{Dir: dir, Env: vars, Args: []string{"serve", "-c", config, "--node", "n1"}}.Serve(t)
}

// hello wants a call to be served that belongs to a trace, which may be "".
func hello(t *testing.T, p *processtest.Process, traceparent string) {
	t.Helper()
	r := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, p.Data+"/v1/chat/completions", strings.NewReader(processtest.Chat(`"max_tokens":5`))))(t)
	r.Header.Set("Authorization", "Bearer key-of-a")
	r.Header.Set("Traceparent", traceparent)
	resp := testkit.Must(http.DefaultClient.Do(r))(t)
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s %v", resp.StatusCode, b, err)
	}
}

// What is left of spans is sent when the gateway drains, and the log names the same trace.
func TestTracing_FlushedByADrain(t *testing.T) {
	t.Parallel()
	s := &spans{}
	server := httptest.NewServer(s)
	defer server.Close()
	p := traced(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+server.URL, "OTEL_BSP_SCHEDULE_DELAY=3600000")
	hello(t, p, "")
	p.End(t, syscall.SIGINT, 0) // without a grace
	s.mu.Lock()
	defer s.mu.Unlock()

	byName := map[string]*tracepb.Span{}
	for _, span := range s.got {
		byName[span.Name] = span
	}
	root := byName["POST /v1/chat/completions"]
	if root == nil || len(s.got) != 3 {
		t.Fatalf("there are %d spans: %v", len(s.got), s.got)
	}
	for _, name := range []string{"admit", "chat m"} {
		if child := byName[name]; child == nil || string(child.ParentSpanId) != string(root.SpanId) {
			t.Errorf("%s is %v", name, child)
		}
	}
	for _, want := range []string{`"llmgov"`, `"n1"`} {
		if !strings.Contains(s.who, want) {
			t.Errorf("it says of itself %s", s.who)
		}
	}
	lines := 0
	for line := range strings.Lines(p.Log()) {
		var l struct {
			Msg   string
			Trace string `json:"trace_id"`
		}
		if json.Unmarshal([]byte(line), &l) == nil && l.Msg == "request" {
			lines++
			if l.Trace != fmt.Sprintf("%x", root.TraceId) {
				t.Errorf("the log has %s", line)
			}
		}
	}
	if lines != 1 {
		t.Errorf("%d lines: %s", lines, p.Log())
	}
}

// A collector that does not answer holds up neither calls nor, longer than the time to
// drain, the end, nor the last metrics.
func TestTracing_CollectorHangs(t *testing.T) {
	t.Parallel()
	s := &spans{late: time.Hour}
	server := httptest.NewServer(s)
	defer server.Close()
	p := traced(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+server.URL, "OTEL_BSP_SCHEDULE_DELAY=1", "LLMGOV_TIMEOUTS_DRAIN=1s", "OTEL_METRICS_EXPORTER=otlp")
	for range 3 {
		hello(t, p, "")
	}
	p.End(t, syscall.SIGINT, 0) // without a grace
	if text := p.Log(); !strings.Contains(text, "the last spans are lost") || strings.Contains(text, "the last metrics") || s.metrics == 0 {
		t.Errorf("metrics came %d times, and it says %s", s.metrics, text)
	}
}
