package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// spans is a collector. Late is how long it takes to answer.
type spans struct {
	late time.Duration
	mu   sync.Mutex
	got  []*tracepb.Span
	who  string
}

func (s *spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
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

// tracedProcess is a gateway with a tenant whose key is key-of-a.
func tracedProcess(t *testing.T, vars ...string) *process {
	t.Helper()
	dir := t.TempDir()
	config := restartConfig(t, dir, startMock(t)+"/v1", "concurrency: 10", false)
	p, err := launch(dir, append(vars, "PATH="+os.Getenv("PATH")), "serve", "-c", config, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--node", "n1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	if err := p.listening(); err != nil {
		t.Fatal(err)
	}
	return p
}

// ask sends a call, and reads its answer.
func (p *process) ask(t *testing.T, header ...string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, p.data+"/v1/chat/completions", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hello"}],"max_tokens":5}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer key-of-a")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s %v", resp.StatusCode, b, err)
	}
}

// end drains the process without a grace, and waits for its end.
func (p *process) end(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("it ends with %d: %s", code, read(p.stderr))
	}
}

// What is left of spans is sent when the gateway drains, and the log names the same trace.
func TestTracing_FlushedByADrain(t *testing.T) {
	s := &spans{}
	server := httptest.NewServer(s)
	defer server.Close()
	p := tracedProcess(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+server.URL, "OTEL_BSP_SCHEDULE_DELAY=3600000")
	p.ask(t)
	p.end(t)
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
	for line := range strings.Lines(read(p.stderr)) {
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
		t.Errorf("%d lines: %s", lines, read(p.stderr))
	}
}

// A collector that does not answer holds up neither calls nor, longer than the time to
// drain, the end.
func TestTracing_CollectorHangs(t *testing.T) {
	s := &spans{late: time.Hour}
	server := httptest.NewServer(s)
	defer server.Close()
	p := tracedProcess(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+server.URL, "OTEL_BSP_SCHEDULE_DELAY=1", "LLMGOV_TIMEOUTS_DRAIN=1s")
	for range 3 {
		p.ask(t)
	}
	p.end(t)
	if text := read(p.stderr); !strings.Contains(text, "the last spans are lost") {
		t.Errorf("it says %s", text)
	}
}

// Without any of its variables nothing of tracing is there.
func TestTracing_Off(t *testing.T) {
	p := tracedProcess(t)
	p.ask(t, "Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	p.end(t)
	if text := read(p.stderr); strings.Contains(text, "trace") {
		t.Errorf("it says %s", text)
	}
}
