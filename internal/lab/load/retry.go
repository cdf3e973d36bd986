package load

import (
	"net/http"
	"strconv"
	"time"
)

// retryWord is the value of x-should-retry.
type retryWord int

const (
	noWord retryWord = iota
	retryYes
	retryNo
)

func wordOf(h http.Header) retryWord {
	switch h.Get("x-should-retry") {
	case "true":
		return retryYes
	case "false":
		return retryNo
	}
	return noWord
}

// hintOf is the wait that an answer asks for, or 0. A date counts from the answer's own Date, so
// that no two clocks are compared.
func hintOf(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("retry-after-ms"), 64); err == nil && ms > 0 && ms < 1e12 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	after := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(after, 64); err == nil {
		if s > 0 && s < 1e9 {
			return time.Duration(s * float64(time.Second))
		}
		return 0
	}
	when, err := http.ParseTime(after)
	if err != nil {
		return 0
	}
	sent, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return max(0, when.Sub(sent))
}

const (
	sdkRetries = 2
	sdkFirst   = 500 * time.Millisecond
	sdkMost    = 8 * time.Second
	// sdkObeys is the longest Retry-After that libraries obey. If it is longer, they use their own
	// backoff.
	sdkObeys = time.Minute
)

// comeBack is the time from the end of an attempt to the next one, if there is one.
func (p *Plan) comeBack(c *Call, a *attempt, tries int) (time.Duration, bool) {
	switch p.Tenants[c.Tenant].Retry {
	case RetryHinted:
		patience := c.At + p.Timeout
		ok := a.outcome == Refused && a.hint > 0 && a.retry != retryNo && a.end+a.hint <= patience
		return a.hint, ok
	case RetrySDK:
		if tries > sdkRetries || !a.sdkRetries() {
			return 0, false
		}
		if a.hint > 0 && a.hint <= sdkObeys {
			return a.hint, true
		}
		pause := min(sdkFirst<<(tries-1), sdkMost)
		return pause - time.Duration(c.Luck/4*float64(pause)), true
	}
	return 0, false
}

// sdkRetries is the libraries' rule for retries.
func (a *attempt) sdkRetries() bool {
	switch {
	case a.outcome != Refused && a.outcome != Failed:
		return false
	case a.retry != noWord:
		return a.retry == retryYes
	case a.status == 0: // no answer at all
		return true
	}
	return a.status == 408 || a.status == 409 || a.status == 429 || a.status >= 500
}
