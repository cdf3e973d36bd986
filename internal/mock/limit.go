package mock

import (
	"fmt"
	"strconv"
	"time"
)

// axis is one of the two things that are limited.
type axis uint8

const (
	axisRequests axis = iota
	axisTokens
)

// level is how full one axis is at an instant. A zero limit means the axis is off.
type level struct {
	limit, used int64
	reset       time.Duration // until nothing of it is used, if nothing more comes
}

func (l level) remaining() int64 { return max(0, l.limit-l.used) }

// levels are both axes at one instant, as told in the headers of an answer.
type levels struct{ requests, tokens level }

// verdict is the decision on one request.
type verdict struct {
	ok        bool
	levels    levels        // after an admission, before a refusal
	axis      axis          // what refuses: of two, the one that takes longer
	requested int64         // what the request needs on that axis
	tooLarge  bool          // it needs more than the limit: no time will help
	wait      time.Duration // until what it needs will have left the window
}

// needs returns how many tokens must fit into the window for a request to be admitted.
func (b *books) needs(t *ticket) int64 {
	if b.accounting == AdmitMax {
		return t.prompt + t.bound
	}
	return t.prompt
}

// judgeLocked decides on t without changing anything but the passing of time.
func (b *books) judgeLocked(now time.Duration, t *ticket) verdict {
	v := verdict{levels: b.levelsLocked(now)}
	need := b.needs(t)
	if b.tpm > 0 && need > b.tpm {
		v.axis = axisTokens
		v.requested = need
		v.tooLarge = true
		return v
	}
	if b.rpm > 0 {
		v.axis = axisRequests
		v.requested = 1
		v.wait = b.requests.wait(now, b.requests.sum+1-b.rpm)
	}
	if b.tpm > 0 {
		if wait := b.tokens.wait(now, b.tokens.sum+need-b.tpm); wait > v.wait {
			v.axis = axisTokens
			v.requested = need
			v.wait = wait
		}
	}
	v.ok = v.wait == 0
	return v
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

// roundUp returns d in whole milliseconds, never less than d: who comes back then comes in time.
func roundUp(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
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
