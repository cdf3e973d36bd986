package load

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/streaming"
)

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
