package load

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// Limit is a condition under which a run counts as failed, such as p99>2s.
type Limit struct {
	text  string
	of    func(*Figures) (float64, bool) // false if it was not measured
	below bool
	bound float64
}

// The figures that can have a limit: numbers, parts of the offered calls, times.
var (
	limitCounts = map[string]func(*Figures) int64{
		"error":   func(f *Figures) int64 { return f.Failed },
		"refused": func(f *Figures) int64 { return f.Refused },
		"broken":  func(f *Figures) int64 { return f.Broken },
		"unsent":  func(f *Figures) int64 { return f.Unsent },
		"ok":      func(f *Figures) int64 { return f.OK },
	}
	limitRates = map[string]func(*Figures) float64{
		"goodput": func(f *Figures) float64 { return f.GoodTokens },
	}
	limitTimes = map[string]func(*Quantiles) float64{
		"p50":   func(q *Quantiles) float64 { return q.P50 },
		"p90":   func(q *Quantiles) float64 { return q.P90 },
		"p99":   func(q *Quantiles) float64 { return q.P99 },
		"p99.9": func(q *Quantiles) float64 { return q.P999 },
		"max":   func(q *Quantiles) float64 { return q.Max },
	}
)

// ParseLimits reads a list such as "error>0,refused>5%,p99>2s,ttft.p90>500ms,goodput<1000".
func ParseLimits(list string) ([]Limit, error) {
	var limits []Limit
	for text := range strings.SplitSeq(list, ",") {
		l, err := parseLimit(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		limits = append(limits, l)
	}
	return limits, nil
}

func parseLimit(text string) (Limit, error) {
	at := strings.IndexAny(text, "<>")
	if at < 0 {
		return Limit{}, fmt.Errorf("%s is not a condition; write one such as error>0 or p99>2s", strictyaml.Show(text))
	}
	name := strings.TrimSpace(text[:at])
	bound := strings.TrimSpace(text[at+1:])
	l := Limit{text: text, below: text[at] == '<'}
	quantile, ofTTFT := strings.CutPrefix(name, "ttft.")
	var err error
	if of, ok := limitTimes[quantile]; ok {
		var d time.Duration
		d, err = time.ParseDuration(bound)
		l.bound = d.Seconds()
		l.of = timeLimit(ofTTFT, of)
	} else if of, ok := limitCounts[name]; ok {
		number, ofOffered := strings.CutSuffix(bound, "%")
		l.bound, err = strconv.ParseFloat(number, 64)
		l.of = countLimit(ofOffered, of)
	} else if of, ok := limitRates[name]; ok {
		l.bound, err = strconv.ParseFloat(bound, 64)
		l.of = func(f *Figures) (float64, bool) { return of(f), true }
	} else {
		return Limit{}, fmt.Errorf("%s: there is no figure %s; %s", text, strictyaml.Show(name), strictyaml.Advise(name, limitNames()))
	}
	if err != nil {
		return Limit{}, fmt.Errorf("%s: %s is the wrong kind of value; write a time (2s) for times, else a number (10) or a share of the calls (5%%)",
			text, strictyaml.Show(bound))
	}
	return l, nil
}

func timeLimit(ofTTFT bool, of func(*Quantiles) float64) func(*Figures) (float64, bool) {
	return func(f *Figures) (float64, bool) {
		q := f.Times.Latency.Due
		if ofTTFT {
			q = f.Times.TTFT.Due
		}
		if q == nil {
			return 0, false
		}
		return of(q), true
	}
}

func countLimit(ofOffered bool, of func(*Figures) int64) func(*Figures) (float64, bool) {
	return func(f *Figures) (float64, bool) {
		n := float64(of(f))
		if ofOffered {
			return 100 * part(n, float64(f.Offered)), true
		}
		return n, true
	}
}

func limitNames() []string {
	names := slices.Concat(slices.Collect(maps.Keys(limitCounts)), slices.Collect(maps.Keys(limitRates)))
	for q := range limitTimes {
		names = append(names, q, "ttft."+q)
	}
	return names
}

// Broken are the limits that the figures of all tenants together break. A time that was never
// measured breaks its limit, because a run without an answer has failed.
func (r *Report) Broken(limits []Limit) []string {
	var broken []string
	for _, l := range limits {
		x, measured := l.of(&r.Total)
		switch {
		case !measured:
			broken = append(broken, l.text+" (nothing was measured)")
		case x > l.bound && !l.below, x < l.bound && l.below:
			broken = append(broken, fmt.Sprintf("%s (it is %.6g)", l.text, x))
		}
	}
	return broken
}
