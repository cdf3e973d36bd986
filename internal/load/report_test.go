package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/streaming"
)

// aReport is one of many tenants to whom everything happened.
func aReport(n int) *Report {
	var list []Tenant
	for i := range n {
		x := DefaultTenant()
		x.Name = fmt.Sprintf("a-tenant-with-a-long-name-%d", i)
		x.Rate = float64(i + 1)
		list = append(list, x)
	}
	p := plan(30*time.Second, list...)
	l := NewLedger(p)
	for i := range n * 50 {
		s := Sample{
			Tenant: i % n, At: time.Duration(i) * 500 * time.Millisecond % p.For, Attempts: 1, Stream: true,
			Outcome: Outcome(i / n % 5), Usage: streaming.Usage{Input: 1e9, Output: 1e9}, Failure: `500 </script><b onclick="x">`, Example: "e",
		}
		s.Left = s.At
		s.Sent = s.At
		s.Headers = s.At + time.Second
		s.First = s.At + 2*time.Second
		s.End = s.At + 150*time.Second
		if s.Outcome == Refused {
			s.Refusals = []Refusal{{"429 share", time.Millisecond, time.Hour}}
		}
		l.Offer(&Call{Tenant: s.Tenant, At: s.At})
		l.Add(&s)
	}
	return l.Report("http://server")
}

func TestTableFitsATerminal(t *testing.T) {
	for _, n := range []int{1, 3} {
		var b strings.Builder
		testkit.OK(t, aReport(n).WriteTable(&b))
		for line := range strings.Lines(b.String()) {
			if width := len([]rune(strings.TrimSuffix(line, "\n"))); width > 100 && !strings.HasPrefix(line, "  !") {
				t.Errorf("a line of %d characters: %s", width, line)
			}
		}
		if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "\nall ") != (n > 1) {
			t.Error(b.String())
		}
	}
}

// documented are the names that scripts rely on.
var documented = []string{
	"url", "seed", "warmup_seconds", "measured_seconds", "notes", "tenants", "total.offered", "total.sent", "total.ok", "total.refused",
	"total.broken_off", "total.failed", "total.unfinished", "total.unsent", "total.attempts", "total.retried", "total.refusals", "total.failures",
	"total.input_tokens", "total.output_tokens", "total.without_usage", "total.goodput_tokens_per_second", "total.goodput_requests_per_second",
	"total.goodput_share", "total.times.ttft.since_due.p99_seconds", "total.times.ttft.since_sent.p99_9_seconds", "total.times.between_tokens",
	"total.times.latency.since_due.max_seconds", "total.times.headers.since_sent.p50_seconds", "total.times.to_refusal.mean_seconds",
	"total.times.retry_hint.count", "total.times.sent_late.p90_seconds",
}

func TestJSONHasTheDocumentedNames(t *testing.T) {
	var b bytes.Buffer
	testkit.OK(t, aReport(2).WriteJSON(&b))
	var all map[string]any
	testkit.OK(t, json.Unmarshal(b.Bytes(), &all))
	for _, path := range documented {
		var at any = all
		for name := range strings.SplitSeq(path, ".") {
			object, _ := at.(map[string]any)
			var ok bool
			at, ok = object[name]
			if !ok {
				t.Errorf("no %s", path)
				break
			}
		}
	}
}

func TestReportIsOneFile(t *testing.T) {
	var b strings.Builder
	testkit.OK(t, aReport(14).WriteHTML(&b))
	text := b.String()
	for _, loads := range []string{`\bsrc=`, `<link`, `@import`, `url\(`, `\bfetch\(`, `XMLHttpRequest`} {
		if found := regexp.MustCompile(loads).FindString(text); found != "" {
			t.Errorf("the report loads something: %s", found)
		}
	}
	if strings.Contains(text, `<b onclick`) {
		t.Error("what the server said is not escaped")
	}
	_, rest, _ := strings.Cut(text, `id="data">`)
	data, _, _ := strings.Cut(rest, "</script>")
	var charts chartData
	if err := json.Unmarshal([]byte(data), &charts); err != nil {
		t.Fatalf("the data of the charts: %v", err)
	}
	if n := len(charts.Lines); n != mostLines+1 || charts.Lines[0].Name != "a-tenant-with-a-long-name-2" || charts.Lines[n-1].Name != "all others" {
		t.Errorf("%d lines, from %q to %q; want the twelve that ask most, and the others", n, charts.Lines[0].Name, charts.Lines[n-1].Name)
	}
	for _, l := range charts.Lines {
		if len(l.Tokens) != 30 || len(l.TTFTP99) != len(charts.Times) {
			t.Errorf("%s has %d points for %d times", l.Name, len(l.Tokens), len(charts.Times))
		}
	}
}

func TestLimits(t *testing.T) {
	r := &Report{Total: Figures{Offered: 200, OK: 150, Refused: 20, Failed: 3, GoodTokens: 900, Times: Times{
		Latency: Both{Due: &Quantiles{P50: 0.5, P90: 1, P99: 2, P999: 3, Max: 4}},
	}}}
	for text, breaks := range map[string]bool{
		"error>0": true, "error>3": false, "error > 2": true, "error>1%": true, "error>1.5%": false, "refused>10%": false, "refused>9%": true,
		"ok<150": false, "ok<75%": false, "ok<76%": true, "unsent>0": false, "goodput<1000": true, "goodput<900": false,
		"p50>500ms": false, "p90>999ms": true, "p99>2s": false, "p99.9>2.9s": true, "max<5s": true, "p99<1s": false,
		"ttft.p99>1h": true, // nothing was measured
	} {
		limits, err := ParseLimits("unsent>0," + text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if broken := r.Broken(limits); (len(broken) == 1) != breaks {
			t.Errorf("%s: %q", text, broken)
		}
	}
	for text, want := range map[string]string{
		"": `"" is not a condition`, "error": `"error" is not a condition`, "errors>0": `did you mean "error"?`, "p99>2": `"2" is the wrong kind of value`,
		"error>x": `"x" is the wrong`, "p99=2s": "is not a condition", "ttft.error>0": "there is no figure", "p99>5%": `"5%" is the wrong`, "goodput<5%": `"5%" is the wrong`,
	} {
		if _, err := ParseLimits(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestText(t *testing.T) {
	for seconds, want := range map[float64]string{
		0.000012: "12 µs", 0.00123: "1.23 ms", 0.0456: "46 ms", 0.9994: "999 ms", 1.234: "1.23 s", 59.994: "59.99 s", 3599.6: "3600 s",
	} {
		if got := text(seconds); got != want {
			t.Errorf("%v: %s, want %s", seconds, got, want)
		}
	}
}
