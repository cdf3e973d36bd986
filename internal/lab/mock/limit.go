package mock

import (
	"fmt"
	"strconv"
	"time"
)

// axis is a limited resource. Tokens are those of input and output together.
type axis uint8

const (
	axisRequests axis = iota
	axisTokens
	axisInput
	axisOutput

	axes = iota
)

// axisNames are what refusals and headers call an axis.
var axisNames = [axes]struct{ kind, unit, header string }{
	{"requests", "requests per min (RPM)", "Requests"},
	{"tokens", "tokens per min (TPM)", "Tokens"},
	{"tokens", "input tokens per min (ITPM)", "Input-Tokens"},
	{"tokens", "output tokens per min (OTPM)", "Output-Tokens"},
}

// level is the usage of one axis at an instant. A zero limit means the axis is off.
type level struct {
	limit, used int64
	reset       time.Duration // until its usage is zero, if nothing more comes
	period      time.Duration // of its windows, if they are said; 0 if not
}

func (l level) remaining() int64 { return max(0, l.limit-l.used) }

// levels are all axes at one instant, as in the headers of an answer.
type levels [axes]level

// verdict is the decision on one request.
type verdict struct {
	ok        bool
	levels    levels        // after an admission, before a refusal
	axis      axis          // the axis that refuses: of several, the one with the longest wait
	requested int64         // the request's amount on that axis
	tooLarge  bool          // the amount exceeds the limit, so waiting does not help
	wait      time.Duration // until enough has left the window
}

func (b *books) levelsLocked(now time.Duration) (l levels) {
	for k, limit := range b.limits {
		if limit > 0 {
			l[k] = level{limit: limit, reset: b.windows[k].empty(now)}
			if b.windows[k].fixed == time.Second { // else none reads it right
				l[k].period = time.Second
			}
			l[k].used = b.windows[k].sum // after empty has let the old ones go
		}
	}
	return l
}

// err words a refusal as OpenAI does.
func (v verdict) err(model string) *apiError {
	unit := axisNames[v.axis].unit
	l := v.levels[v.axis]
	e := &apiError{status: 429, kind: axisNames[v.axis].kind, code: "rate_limit_exceeded"}
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

// set writes the headers of the axes that are on: those of input and output as Anthropic names them, the others as OpenAI does.
func (l levels) set(h *header) {
	for k, of := range l {
		if of.limit == 0 {
			continue
		}
		name := axisNames[k].header
		header := func(what string) string { return "X-Ratelimit-" + what + "-" + name }
		empty := roundUp(of.reset).String()
		if axis(k) >= axisInput {
			header = func(what string) string { return "Anthropic-Ratelimit-" + name + "-" + what }
			empty = time.Now().Add(of.reset).UTC().Format(time.RFC3339)
		}
		h.set(header("Limit"), strconv.FormatInt(of.limit, 10))
		h.set(header("Remaining"), strconv.FormatInt(of.remaining(), 10))
		h.set(header("Reset"), empty)
		if of.period > 0 {
			h.set(header("Renewalperiod"), strconv.Itoa(int(of.period.Seconds())))
		}
	}
}
