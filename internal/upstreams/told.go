package upstreams

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Told are the upstream's limits in the headers of an answer.
type Told struct {
	// Tokens and Requests are its limits a minute; 0 is none.
	Tokens, Requests int64
	// Retry is the wait before a retry; 0 is none. Only ReadRetry reads it.
	Retry time.Duration
}

// Headers are those in which a family of servers declares its limits, in the canonical form.
type Headers struct {
	Tokens   string // the limit a minute
	Requests string
	Resets   []Reset
}

// Reset is a pair of headers: the remaining amount, and the time of its reset.
type Reset struct{ Remaining, At string }

// Read reads the limits that an answer declares. The first of the families of headers holds.
func Read(h http.Header, families []Headers) (t Told) {
	for _, f := range families {
		if t.Tokens == 0 {
			t.Tokens = count(h[f.Tokens])
		}
		if t.Requests == 0 {
			t.Requests = count(h[f.Requests])
		}
	}
	return t
}

// count reads a header that is a number; 0 if it is none.
func count(values []string) int64 {
	if len(values) == 0 {
		return 0
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || n <= 0 {
		return 0
	}
	return min(n, 1_000_000_000_000)
}

// ReadRetry is the wait that a refusal asks for, or 0: in milliseconds, in seconds or as a
// date, else the reset of an amount of which nothing remains.
func ReadRetry(h http.Header, families []Headers, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return span(ms * float64(time.Millisecond))
	}
	if d := after(h.Get("Retry-After"), now); d > 0 {
		return d
	}
	longest := time.Duration(0)
	for _, f := range families {
		for _, r := range f.Resets {
			if left, err := strconv.ParseInt(h.Get(r.Remaining), 10, 64); err == nil && left <= 0 {
				longest = max(longest, after(h.Get(r.At), now))
			}
		}
	}
	return longest
}

// after reads a number of seconds, a duration such as 6m0s, or a date.
func after(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		return span(s * float64(time.Second))
	}
	if d, err := time.ParseDuration(text); err == nil {
		return max(0, d)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		at, err = time.Parse(time.RFC3339, text)
	}
	if err != nil {
		return 0
	}
	return max(0, at.Sub(now))
}

// span is a number of nanoseconds, cut to the range of durations.
func span(ns float64) time.Duration {
	if !(ns > 0) {
		return 0
	}
	return time.Duration(min(ns, float64(24*time.Hour)))
}
