package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
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

// TestReport_OfHandMadeSamples: counts leave out what was due before the warm-up was over, and goodput what ended before or after the measured
// time. Quantiles are right within 0.1 %.
func TestReport_OfHandMadeSamples(t *testing.T) {
	p := plan(20*time.Second, DefaultTenant(), DefaultTenant())
	p.Warmup = 5 * time.Second
	l := NewLedger(p)
	add := func(s Sample) {
		l.Offer(&Call{Tenant: s.Tenant, At: s.At})
		l.Add(&s)
	}
	const ms, sec = time.Millisecond, time.Second
	used := streaming.Usage{Input: 100, Output: 10}
	for i := range time.Duration(100) {
		at := 6*sec + i*ms
		sent := at + 200*ms // again, after it was refused
		first := sent + (i+1)*10*ms
		add(Sample{
			At: at, Left: at + 20*ms, Sent: sent, Headers: first, First: first, End: first + 2*sec,
			Attempts: 2, Stream: true, Outcome: OK, Usage: used, Reported: true,
		})
	}
	for _, ends := range []time.Duration{4 * sec, 6 * sec} { // of which the second counts in goodput alone
		add(Sample{At: sec, Left: sec, Sent: sec, Headers: ends, First: ends, End: ends, Outcome: OK, Usage: used, Reported: true})
	}
	add(Sample{Tenant: 1, At: 24 * sec, Left: 24 * sec, Sent: 24 * sec, Headers: 25 * sec, First: never, End: 25 * sec, Outcome: OK, Usage: used, Reported: true})
	add(Sample{Tenant: 1, At: 7 * sec, Left: 7 * sec, Sent: 7 * sec, End: 7*sec + 3*ms, Outcome: Refused, Refusals: []Refusal{{"429 share", 3 * ms, 9 * sec}}})
	add(Sample{Tenant: 1, At: 7 * sec, Left: 7 * sec, Sent: 7 * sec, End: 15 * sec, Outcome: Failed, TimedOut: true, Failure: "timeout"})
	add(Sample{Tenant: 1, At: 7 * sec, Left: 7 * sec, Sent: 7 * sec, First: 8 * sec, End: 9 * sec, Outcome: Broken, Stream: true})
	add(Sample{Tenant: 1, At: 7 * sec, Left: 7 * sec, Sent: 7 * sec, End: 9 * sec, Outcome: Unfinished})

	r := l.Report("http://x")
	f := &r.Total
	got := [7]int64{f.Offered, f.Sent, f.OK, f.Refused, f.Broken, f.Failed, f.Unfinished}
	if want := [7]int64{105, 105, 101, 1, 1, 1, 1}; got != want || f.Unsent != 0 {
		t.Errorf("counts are %v, want %v", got, want)
	}
	first := r.Tenants[0].Times
	other := r.Tenants[1].Times
	for i, x := range [][2]float64{
		{f.GoodTokens, 101 * 110 / 20.},
		{r.Tenants[0].Share, 1},
		{r.Tenants[1].Share, 0},
		{first.TTFT.Due.P50, 0.7},
		{first.TTFT.Due.P90, 1.1},
		{first.TTFT.Due.P99, 1.19},
		{first.TTFT.Due.P999, 1.2},
		{first.TTFT.Due.Max, 1.2},
		{first.TTFT.Sent.P50, 0.5},
		{first.Latency.Due.P50, 2.7},
		{first.Latency.Sent.P50, 2.5},
		{first.Late.Max, 0.02},
		{other.TTFT.Due.Max, 1},
		{other.Latency.Due.P50, 1},
		{other.Latency.Due.Max, 8},
		{other.ToRefusal.Max, 0.003},
		{other.Hint.Max, 9},
		{float64(first.TTFT.Due.Count), 100},
		{float64(other.TTFT.Due.Count), 1},
		{float64(other.Latency.Due.Count), 2},
		{float64(other.Late.Count), 5},
	} {
		if math.Abs(x[0]-x[1]) > 1e-3*x[1] {
			t.Errorf("figure %d is %g, want %g", i, x[0], x[1])
		}
	}
}

// What a server writes into its errors does not make the report grow without bound.
func TestLedger_KindsAreBounded(t *testing.T) {
	l := NewLedger(plan(time.Minute, DefaultTenant()))
	for i := range 1000 {
		l.Add(&Sample{Outcome: Failed, Failure: strings.Repeat("x", i), Headers: never, First: never, End: never})
	}
	f := l.Report("http://x").Total
	if len(f.Failures) != mostKinds+1 || f.Failures[0].Kind != "other" || f.Failures[0].Count != 1000-mostKinds {
		t.Errorf("%d kinds, the first %+v", len(f.Failures), f.Failures[0])
	}
}

func TestNotes(t *testing.T) {
	p := plan(time.Minute, DefaultTenant())
	p.MaxInFlight = 3
	l := NewLedger(p)
	l.Offer(&Call{})
	l.Offer(&Call{})
	l.Add(&Sample{Outcome: Unfinished, Held: true, Headers: never, First: never, End: never})
	l.CutShort(10 * time.Second)
	r := l.Report("http://x")
	if r.Seconds != 10 || r.Total.Unsent != 1 {
		t.Errorf("%v s, %d unsent", r.Seconds, r.Total.Unsent)
	}
	all := strings.Join(r.Notes, "\n")
	for _, part := range []string{"cut short after 10.0 s; 1 calls", "1 calls were due and never sent", "1 calls were held back, because 3"} {
		if !strings.Contains(all, part) {
			t.Errorf("no %q in %s", part, all)
		}
	}
}
