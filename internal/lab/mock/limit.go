package mock

import (
	"fmt"
	"strconv"
	"time"
)

// axis is a limited resource: requests or tokens.
type axis uint8

const (
	axisRequests axis = iota
	axisTokens
)

// level is the usage of one axis at an instant. A zero limit means the axis is off.
type level struct {
	limit, used int64
	reset       time.Duration // until its usage is zero, if nothing more comes
}

func (l level) remaining() int64 { return max(0, l.limit-l.used) }

// levels are both axes at one instant, as in the headers of an answer.
type levels struct{ requests, tokens level }

// verdict is the decision on one request.
type verdict struct {
	ok        bool
	levels    levels        // after an admission, before a refusal
	axis      axis          // the axis that refuses: of two, the one with the longer wait
	requested int64         // the request's amount on that axis
	tooLarge  bool          // the amount exceeds the limit, so waiting does not help
	wait      time.Duration // until enough has left the window
}

func (b *books) levelsLocked(now time.Duration) (l levels) {
	if b.rpm > 0 {
		l.requests = level{b.rpm, 0, b.requests.empty(now)}
		l.requests.used = b.requests.sum // after empty has let the old ones go
	}
	if b.tpm > 0 {
		l.tokens = level{b.tpm, 0, b.tokens.empty(now)}
		l.tokens.used = b.tokens.sum
	}
	return l
}

// err words a refusal as OpenAI does.
func (v verdict) err(model string) *apiError {
	kind := "requests"
	unit := "requests per min (RPM)"
	l := v.levels.requests
	if v.axis == axisTokens {
		kind = "tokens"
		unit = "tokens per min (TPM)"
		l = v.levels.tokens
	}
	e := &apiError{status: 429, kind: kind, code: "rate_limit_exceeded"}
	if v.tooLarge {
		e.message = fmt.Sprintf("Request too large for %s on %s: Limit %d, Requested %d. "+
			"The input or output tokens must be reduced in order to run successfully.", model, unit, l.limit, v.requested)
		e.noRetry = true
		return e
	}
	e.message = fmt.Sprintf("Rate limit reached for %s on %s: Limit %d, Used %d, Requested %d. Please try again in %s.",
		model, unit, l.limit, l.used, v.requested, roundUp(v.wait))
	e.retryAfter = v.wait
	return e
}

// set writes the x-ratelimit headers of the axes that are on.
func (l levels) set(h *header) {
	if l.requests.limit > 0 {
		h.set("X-Ratelimit-Limit-Requests", strconv.FormatInt(l.requests.limit, 10))
		h.set("X-Ratelimit-Remaining-Requests", strconv.FormatInt(l.requests.remaining(), 10))
		h.set("X-Ratelimit-Reset-Requests", roundUp(l.requests.reset).String())
	}
	if l.tokens.limit > 0 {
		h.set("X-Ratelimit-Limit-Tokens", strconv.FormatInt(l.tokens.limit, 10))
		h.set("X-Ratelimit-Remaining-Tokens", strconv.FormatInt(l.tokens.remaining(), 10))
		h.set("X-Ratelimit-Reset-Tokens", roundUp(l.tokens.reset).String())
	}
}
