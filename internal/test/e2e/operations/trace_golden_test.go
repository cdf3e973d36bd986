package operations

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/llmgov/llmgov/internal/ops/tracing"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// Of each way that a call can end, its spans and its one log line say all that there is to
// know, and nothing of what was asked and answered.
func TestWhatIsToldOfACall(t *testing.T) {
	for name, c := range toldCases() {
		testkit.Virtual(t, name, func(t *testing.T) {
			got := c.run(t)
			file := filepath.Join("testdata", "calls", strings.NewReplacer(" ", "_", "'", "").Replace(name)+".txt")
			if *updateCalls {
				testkit.OK(t, os.WriteFile(file, []byte(got), 0o600))
			}
			want := testkit.Must(os.ReadFile(file))(t)
			testkit.Same(t, string(want), got)
		})
	}
}

func (c told) run(t *testing.T) string {
	t.Helper()
	w := c.world
	spans := tracetest.NewSpanRecorder()
	lines := &bytes.Buffer{}
	if w.Pool.Name == "" {
		w.Pool = harness.Pool(0, 0, 1000)
	}
	for _, name := range []string{"a", "b", "hasty"} {
		who := harness.Tenant(name, 1)
		who.Keys[0].Name = "key-of-" + name
		if name != "hasty" {
			who.MaxWait = 10 * time.Second
		}
		w.Tenants = append(w.Tenants, who)
	}
	w.Tracer = tracing.New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	w.Log = slog.NewJSONHandler(lines, nil)
	s := harness.New(t, w)
	if c.before != nil {
		c.before(s)
	}
	own := len(spans.Ended())
	other := lines.Len()
	c.call(s)
	synctest.Wait()
	mine, line := callOfA(t, spans.Ended()[own:], lines.String()[other:])
	s.Close()
	for _, secret := range []string{"piece of string", "Bearer", "upstream-key", "\"a\",\"api"} {
		if strings.Contains(mine+line, secret) {
			t.Errorf("%q is told:\n%s%s", secret, mine, line)
		}
	}
	return mine + "\n" + line
}

// callOfA finds the call's spans and its one line.
func callOfA(t *testing.T, ended []sdktrace.ReadOnlySpan, log string) (tree, line string) {
	t.Helper()
	var fields map[string]any
	for one := range strings.Lines(log) {
		var f map[string]any
		if err := json.Unmarshal([]byte(one), &f); err != nil {
			t.Fatalf("%v: %s", err, one)
		}
		if f["msg"] != "request" || f["tenant"] == "b" {
			continue
		}
		if fields != nil {
			t.Errorf("a second line: %s", one)
		}
		fields = f
	}
	if fields == nil {
		t.Fatalf("no line in %q", log)
	}
	id := fields["trace_id"]
	var mine []sdktrace.ReadOnlySpan
	for _, span := range ended {
		if span.SpanContext().TraceID().String() == id {
			mine = append(mine, span)
		}
	}
	if fields["level"] != "INFO" || !strings.HasPrefix(fmt.Sprint(fields["request_id"]), "req_") {
		t.Errorf("the line is %v", fields)
	}
	for _, drawn := range []string{"time", "level", "msg", "trace_id", "request_id"} {
		delete(fields, drawn)
	}
	text := ""
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		text += fmt.Sprintf("%s=%v\n", key, guessed(key, fields[key], fields["estimated"] != nil))
	}
	return draw(t, mine), text
}

// draw shows a call's spans: one root, and its children in the order in which they began,
// none of which is outside of it.
func draw(t *testing.T, spans []sdktrace.ReadOnlySpan) string {
	t.Helper()
	slices.SortStableFunc(spans, func(a, b sdktrace.ReadOnlySpan) int {
		if c := a.StartTime().Compare(b.StartTime()); c != 0 {
			return c
		}
		return strings.Compare(rank(a), rank(b))
	})
	if len(spans) == 0 {
		t.Fatal("no spans")
	}
	root := spans[0]
	text := ""
	for i, span := range spans {
		indent := "  "
		if i == 0 {
			indent = ""
		} else if span.Parent().SpanID() != root.SpanContext().SpanID() || span.EndTime().After(root.EndTime()) {
			t.Errorf("%s is no child of %s, or ends after it", span.Name(), root.Name())
		}
		text += fmt.Sprintf("%s%s  %s  %v+%v  %s\n", indent, span.Name(), span.SpanKind(), span.StartTime().Sub(root.StartTime()), span.EndTime().Sub(span.StartTime()), span.Status().Code)
		var attrs []string
		for _, a := range span.Attributes() {
			if a.Key != "llmgov.request_id" {
				attrs = append(attrs, fmt.Sprintf("%s    %s=%v\n", indent, a.Key, guessed(string(a.Key), a.Value.AsInterface(), span.Name() != root.Name() && isEstimated(span))))
			}
		}
		slices.Sort(attrs)
		text += strings.Join(attrs, "")
	}
	return text
}

// guessed hides what is no more than an estimate: how these are made is another matter.
func guessed(key string, v any, estimated bool) any {
	switch {
	case strings.HasSuffix(key, "held_tokens"), strings.HasPrefix(key, "held"), strings.HasSuffix(key, "retry_after_seconds"):
	case estimated && strings.HasPrefix(key[strings.LastIndex(key, ".")+1:], "input"):
	default:
		return v
	}
	if fmt.Sprint(v) == "0" {
		return v
	}
	return "…"
}

func isEstimated(span sdktrace.ReadOnlySpan) bool {
	return slices.ContainsFunc(span.Attributes(), func(a attribute.KeyValue) bool { return a.Key == "llmgov.usage.estimated" })
}

// rank orders what began at the same time.
func rank(span sdktrace.ReadOnlySpan) string {
	n := ""
	for _, a := range span.Attributes() {
		if a.Key == "llmgov.try" {
			n = a.Value.String()
		}
	}
	return map[bool]string{true: "0"}[!span.Parent().IsValid() || span.Parent().IsRemote()] + map[bool]string{true: "1", false: "2"}[span.Name() == "admit"] + n
}

// The document has a word for each field and each attribute that is told, and has none
// that no call shows.
func TestToldIsDocumented(t *testing.T) {
	doc := testkit.Must(os.ReadFile("../../../../docs/tracing.md"))(t)
	named := map[string]bool{}
	shown := map[string]bool{"request_id": true, "trace_id": true, "llmgov.request_id": true}
	for line := range strings.Lines(string(doc)) {
		cells := strings.Split(line, "|")
		switch {
		case len(cells) < 3 || strings.HasPrefix(cells[1], " `llmgov_"): // or of a metric
		case strings.Contains(line, "`llmgov.") || strings.Contains(line, "`gen_ai."):
			for _, m := range regexp.MustCompile("`([a-z_.]+[._][a-z_]+)`").FindAllStringSubmatch(line, -1) {
				named[m[1]] = !strings.HasPrefix(m[1], "llmgov_") && m[1] != "text_completion"
			}
		case !strings.Contains(line, "OTEL_"):
			for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[1], -1) {
				named[m[1]] = true
			}
		}
	}
	files, _ := filepath.Glob("testdata/calls/*.txt")
	for _, file := range files {
		text := testkit.Must(os.ReadFile(file))(t)
		for _, m := range regexp.MustCompile(`(?m)^ *([a-z_.]+)=`).FindAllStringSubmatch(string(text), -1) {
			shown[m[1]] = true
		}
	}
	delete(named, "admit")
	maps.DeleteFunc(named, func(_ string, v bool) bool { return !v })
	testkit.Same(t, slices.Sorted(maps.Keys(shown)), slices.Sorted(maps.Keys(named)), "docs/tracing.md (-shown +named)")
}
