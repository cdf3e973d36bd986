package load

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Report has the figures of a run.
type Report struct {
	URL     string  `json:"url"`
	Seed    uint64  `json:"seed"`
	Warmup  float64 `json:"warmup_seconds"`
	Seconds float64 `json:"measured_seconds"`
	// Unauthorized is the number of answers if each of them was a 401, else 0.
	Unauthorized int64 `json:"-"`
	// Unanswered is the number of calls that failed if none got an answer, else 0.
	Unanswered int64 `json:"-"`
	// Notes are warnings about the figures.
	Notes   []string  `json:"notes"`
	Total   Figures   `json:"total"`
	Tenants []Figures `json:"tenants"`
	course  *course
}

// Figures are those of one tenant, or of all.
type Figures struct {
	Name string `json:"name"`
	// Offered calls were due. Those that were sent are OK, refused, broken off, failed or
	// unfinished; the others are unsent.
	Offered    int64 `json:"offered"`
	Sent       int64 `json:"sent"`
	OK         int64 `json:"ok"`
	Refused    int64 `json:"refused"`
	Broken     int64 `json:"broken_off"`
	Failed     int64 `json:"failed"`
	Unfinished int64 `json:"unfinished"`
	Unsent     int64 `json:"unsent"`
	// Attempts are calls with their retries.
	Attempts int64 `json:"attempts"`
	Retried  int64 `json:"retried"`

	Refusals []Kind `json:"refusals"`
	Failures []Kind `json:"failures"`

	Input        int64   `json:"input_tokens"`
	Output       int64   `json:"output_tokens"`
	NoUsage      int64   `json:"without_usage"`
	GoodTokens   float64 `json:"goodput_tokens_per_second"`
	GoodRequests float64 `json:"goodput_requests_per_second"`
	// Share is the part of all tenants' goodput in tokens.
	Share float64 `json:"goodput_share"`

	Times Times `json:"times"`
}

// Kind is one kind of refusal or failure, and its number.
type Kind struct {
	Kind    string     `json:"kind"`
	Count   int64      `json:"count"`
	Hint    *Quantiles `json:"retry_hint,omitempty"`
	Example string     `json:"example,omitempty"`
}

// Both is a time since the call was due, and since it was last sent.
type Both struct {
	Due  *Quantiles `json:"since_due"`
	Sent *Quantiles `json:"since_sent"`
}

// Times are a tenant's times; nil without a measurement.
type Times struct {
	Late      *Quantiles `json:"sent_late"`
	Headers   Both       `json:"headers"`
	TTFT      Both       `json:"ttft"`
	Between   *Quantiles `json:"between_tokens"`
	Latency   Both       `json:"latency"`
	ToRefusal *Quantiles `json:"to_refusal"`
	Hint      *Quantiles `json:"retry_hint"`
}

// Report has the figures of the ledger.
func (l *Ledger) Report(url string) *Report {
	r := &Report{URL: url, Seed: l.plan.Seed, Warmup: l.plan.Warmup.Seconds(), Seconds: l.seconds(), course: l.course}
	all := tally{refusals: map[string]*kind{}, failures: map[string]*kind{}}
	for i := range l.tenants {
		all.merge(&l.tenants[i])
		r.Tenants = append(r.Tenants, l.tenants[i].figures(l.plan.Tenants[i].Name, r.Seconds))
	}
	r.Total = all.figures("all", r.Seconds)
	for i := range r.Tenants {
		r.Tenants[i].Share = part(r.Tenants[i].GoodTokens, r.Total.GoodTokens)
	}
	r.Total.Share = part(r.Total.GoodTokens, r.Total.GoodTokens)
	r.Notes = l.notes(&r.Total, &all)
	return r
}

func part(x, of float64) float64 {
	if of <= 0 {
		return 0
	}
	return x / of
}

func (t *tally) figures(name string, seconds float64) Figures {
	return Figures{
		Name: name, Offered: t.offered, Sent: t.sent, Attempts: t.attempts, Retried: t.retried,
		OK: t.outcomes[OK], Refused: t.outcomes[Refused], Broken: t.outcomes[Broken], Failed: t.outcomes[Failed],
		Unfinished: t.outcomes[Unfinished], Unsent: t.offered - t.sent,
		Refusals: kindsOf(t.refusals), Failures: kindsOf(t.failures),
		Input: t.input, Output: t.output, NoUsage: t.silent,
		GoodTokens: part(float64(t.goodTokens), seconds), GoodRequests: part(float64(t.good), seconds),
		Times: t.times.tell(),
	}
}

func (t *times) tell() Times {
	q := func(m Measure) *Quantiles { return quantiles(t[m]) }
	return Times{
		Late: q(Late), Between: q(Between), ToRefusal: q(ToRefusal), Hint: q(Hint),
		Headers: Both{q(HeadersDue), q(HeadersSent)},
		TTFT:    Both{q(TTFTDue), q(TTFTSent)},
		Latency: Both{q(LatencyDue), q(LatencySent)},
	}
}

// kindsOf lists kinds, the most frequent first.
func kindsOf(kinds map[string]*kind) []Kind {
	list := []Kind{}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		k := kinds[name]
		list = append(list, Kind{name, k.count, quantiles(k.times[Hint]), k.example})
	}
	slices.SortStableFunc(list, func(a, b Kind) int { return int(b.Count - a.Count) })
	return list
}

// lateMost is the largest delay of sending that is noise of timers.
const lateMost = 20 * time.Millisecond

// notes are warnings, the most important first.
func (l *Ledger) notes(f *Figures, all *tally) []string {
	notes := []string{}
	say := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if l.ended < l.plan.end() {
		say("The run was cut short after %.1f s; %d calls were still open and are missing in the latencies.", l.ended.Seconds(), f.Unfinished)
	}
	if f.Unsent > 0 {
		say("%d calls were due and never sent, because %d were open until the end (--max-in-flight). They are missing in the latencies.",
			f.Unsent, l.plan.MaxInFlight)
	}
	if l.held > 0 {
		say("%d calls were held back, because %d were open (--max-in-flight). Times since due include the delay.",
			l.held, l.plan.MaxInFlight)
	}
	if p99 := lateP99(all.times[Late]); l.held == 0 && p99 > lateMost {
		say("Calls were sent late, 1 %% of them by more than %s: this machine is too slow for the load, or busy with something else. Times since due include the delay.",
			text(p99.Seconds()))
	}
	if f.NoUsage > 0 {
		say("%d of %d whole answers reported no usage; their tokens are missing in the figures.", f.NoUsage, f.OK)
	}
	for _, k := range f.Failures[:min(3, len(f.Failures))] {
		if k.Example != "" {
			say("%s, for example: %s", k.Kind, strings.Join(strings.Fields(k.Example), " "))
		}
	}
	return notes
}

func lateP99(h *hdrhistogram.Histogram) time.Duration {
	if h == nil {
		return 0
	}
	return time.Duration(h.ValueAtPercentile(99)) * time.Microsecond
}
