package upstreams

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Told is what the headers of an answer say about the upstream's limits.
type Told struct {
	// Tokens and Requests are its limits a minute; 0 is not said.
	Tokens, Requests int64
	// Retry is when to come back; 0 is not said. It is read by ReadRetry alone.
	Retry time.Duration
}

// Headers that say how much may be used, in the canonical form.
var (
	tokenLimits   = [...]string{"X-Ratelimit-Limit-Tokens", "Anthropic-Ratelimit-Tokens-Limit"}
	requestLimits = [...]string{"X-Ratelimit-Limit-Requests", "Anthropic-Ratelimit-Requests-Limit"}
)

// Read reads the limits that an answer declares.
func Read(h http.Header) Told {
	return Told{Tokens: count(h, tokenLimits[:]), Requests: count(h, requestLimits[:])}
}

func count(h http.Header, names []string) int64 {
	for _, name := range names {
		if v := h[name]; len(v) > 0 {
			if n, err := strconv.ParseInt(v[0], 10, 64); err == nil && n > 0 {
				return min(n, 1_000_000_000_000)
			}
		}
	}
	return 0
}

// resets are where an answer says how much is left, and when there will be more.
var resets = [...][2]string{
	{"X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"},
	{"X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},
	{"Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset"},
	{"Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset"},
	{"Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Reset"},
	{"Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset"},
}

// ReadRetry is when a refusal says to come back, 0 if it does not: in milliseconds, in
// seconds or as a date, else when there will be more of what there is nothing left of.
func ReadRetry(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return span(ms * float64(time.Millisecond))
	}
	if d := after(h.Get("Retry-After"), now); d > 0 {
		return d
	}
	longest := time.Duration(0)
	for _, r := range resets {
		if left, err := strconv.ParseInt(h.Get(r[0]), 10, 64); err == nil && left <= 0 {
			longest = max(longest, after(h.Get(r[1]), now))
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

// span is a number of nanoseconds that may be anything.
func span(ns float64) time.Duration {
	if !(ns > 0) {
		return 0
	}
	return time.Duration(min(ns, float64(24*time.Hour)))
}
