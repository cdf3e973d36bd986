package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/streaming"
	"pgregory.net/rapid"
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

func anySample(t *rapid.T, tenants int) Sample {
	ms := func(name string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most*1000).Draw(t, name)) * time.Microsecond
	}
	s := Sample{
		Tenant: rapid.IntRange(0, tenants-1).Draw(t, "tenant"), At: ms("at", 30_000), Attempts: rapid.IntRange(1, 3).Draw(t, "attempts"),
		Outcome: rapid.SampledFrom([]Outcome{OK, OK, Refused, Broken, Failed, Unfinished}).Draw(t, "outcome"),
		Stream:  rapid.Bool().Draw(t, "stream"), Headers: never, First: never,
	}
	s.Left = s.At + ms("late", 10)
	s.Sent = s.Left + ms("retries", 5000)
	s.Headers = s.Sent + ms("headers", 100)
	s.First = s.Headers + ms("first", 500)
	s.End = s.First + ms("rest", 9000)
	switch s.Outcome {
	case Failed:
		s.Failure = rapid.SampledFrom([]string{"timeout", "500"}).Draw(t, "failure")
		s.TimedOut = s.Failure == "timeout"
	case Refused:
		s.Refusals = []Refusal{{Kind: "429 share", Took: s.End - s.Sent, Hint: ms("hint", 9000)}}
	case OK:
		s.Usage = streaming.Usage{Input: 100, Output: int64(rapid.IntRange(1, 50).Draw(t, "output"))}
		s.Reported = true
	}
	return s
}

// The report says what a list of all samples says, times within 0.1 %.
func TestReport_AgainstTheList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := plan(20*time.Second, DefaultTenant(), DefaultTenant())
		p.Warmup = 5 * time.Second
		samples := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Sample { return anySample(t, 2) }), 0, 60).Draw(t, "samples")
		l := NewLedger(p)
		for i := range samples {
			l.Offer(&Call{Tenant: samples[i].Tenant, At: samples[i].At})
			l.Add(&samples[i])
		}
		r := l.Report("http://x")
		for tenant := range 2 {
			checkFigures(t, &r.Tenants[tenant], p, keep(samples, func(s *Sample) bool { return s.Tenant == tenant }))
		}
		checkFigures(t, &r.Total, p, samples)
		if sum := r.Tenants[0].Share + r.Tenants[1].Share; r.Total.GoodTokens > 0 && math.Abs(sum-1) > 1e-9 {
			t.Fatalf("shares sum to %v", sum)
		}
	})
}

func keep(all []Sample, which func(*Sample) bool) (some []Sample) {
	for i := range all {
		if which(&all[i]) {
			some = append(some, all[i])
		}
	}
	return some
}

// checkFigures computes everything the dumb way.
func checkFigures(t *rapid.T, f *Figures, p *Plan, all []Sample) {
	good := 0.0
	for _, s := range all {
		if s.Outcome == OK && s.End >= p.Warmup && s.End < p.end() {
			good += float64(s.Usage.Input + s.Usage.Output)
		}
	}
	if got := f.GoodTokens * 20; math.Abs(got-good) > 1e-6 {
		t.Fatalf("%v tokens of goodput, want %v", got, good)
	}
	all = keep(all, func(s *Sample) bool { return s.At >= p.Warmup })
	count := func(o Outcome) int64 { return int64(len(keep(all, func(s *Sample) bool { return s.Outcome == o }))) }
	got := [7]int64{f.Offered, f.Sent, f.OK, f.Refused, f.Broken, f.Failed, f.Unfinished}
	n := int64(len(all))
	if want := [7]int64{n, n, count(OK), count(Refused), count(Broken), count(Failed), count(Unfinished)}; got != want || f.Unsent != 0 {
		t.Fatalf("counts are %v, want %v", got, want)
	}
	answered := func(s *Sample) bool { return s.Outcome == OK || s.Outcome == Broken }
	checkTimes(t, "ttft", f.Times.TTFT.Due, all, func(s *Sample) (time.Duration, bool) { return s.First - s.At, answered(s) && s.Stream })
	checkTimes(t, "ttft since sent", f.Times.TTFT.Sent, all, func(s *Sample) (time.Duration, bool) { return s.First - s.Sent, answered(s) && s.Stream })
	checkTimes(t, "latency", f.Times.Latency.Due, all, func(s *Sample) (time.Duration, bool) { return s.End - s.At, s.Outcome == OK || s.TimedOut })
	checkTimes(t, "refusal", f.Times.ToRefusal, all, func(s *Sample) (time.Duration, bool) { return s.End - s.Sent, s.Outcome == Refused })
	checkTimes(t, "late", f.Times.Late, all, func(s *Sample) (time.Duration, bool) { return s.Left - s.At, true })
	checkTimes(t, "hint", f.Times.Hint, all, func(s *Sample) (time.Duration, bool) {
		return hintIn(s), hintIn(s) > 0
	})
}

func hintIn(s *Sample) time.Duration {
	if len(s.Refusals) == 0 {
		return 0
	}
	return s.Refusals[0].Hint
}

func checkTimes(t *rapid.T, what string, q *Quantiles, all []Sample, of func(*Sample) (time.Duration, bool)) {
	var list []float64
	for i := range all {
		if d, ok := of(&all[i]); ok {
			list = append(list, d.Seconds())
		}
	}
	if len(list) == 0 {
		if q != nil {
			t.Fatalf("%s: %+v where nothing was measured", what, q)
		}
		return
	}
	slices.Sort(list)
	at := func(part float64) float64 {
		return list[max(0, min(len(list)-1, int(math.Floor(part*float64(len(list))+0.5))-1))]
	}
	got := []float64{float64(q.Count), q.P50, q.P90, q.P99, q.P999, q.Max}
	for i, want := range []float64{float64(len(list)), at(0.5), at(0.9), at(0.99), at(0.999), list[len(list)-1]} {
		if math.Abs(got[i]-want) > want*1e-3+1e-6 {
			t.Fatalf("%s: figure %d is %v, want %v of %v", what, i, got[i], want, list)
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
