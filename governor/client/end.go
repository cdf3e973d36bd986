package client

import (
	"fmt"

	"github.com/llmgov/llmgov/governor"
)

// Usage is what a call took, in tokens.
type Usage = governor.Usage

// Produced is how far an answer has come.
type Produced struct {
	// Tokens is how many tokens there are so far, if that is known.
	Tokens int64
	// Deltas is in how many pieces a stream has come so far; tokens are estimated from that.
	Deltas int64
}

// End is how a call ended.
type End struct {
	Outcome Outcome
	// Status is the status of HTTP of an AnsweredError, 300 to 599, if that is known. Limits that move go by it.
	Status int
	// Usage is what the call took, as far as the model server has reported it.
	Usage Usage
	// Reported says that Usage is all that it took. What is missing is estimated.
	Reported bool
	// Produced is how far the answer came.
	Produced Produced
}

// Check returns what is wrong with an End by itself, as a *Refusal: a number of tokens that no call has.
func (e *End) Check() error {
	if param, text := e.wrong(); param != "" {
		return invalid(param, "%s", text)
	}
	return nil
}

// wrong is the field that no End can have, and why; "" if there is none.
func (e *End) wrong() (param, text string) {
	if e.Outcome < 0 || int(e.Outcome) >= len(outcomes) {
		return "outcome", fmt.Sprintf("there is no outcome %d", e.Outcome)
	}
	u := &e.Usage
	for _, n := range [...]struct {
		param string
		value int64
	}{
		{"usage.input_tokens", u.Input},
		{"usage.cached_input_tokens", u.CachedInput},
		{"usage.output_tokens", u.Output},
		{"usage.reasoning_tokens", u.Reasoning},
		{"usage.audio_input_tokens", u.AudioInput},
		{"usage.audio_output_tokens", u.AudioOutput},
		{"usage.image_input_tokens", u.ImageInput},
		{"usage.image_output_tokens", u.ImageOutput},
		{"usage.cache_write_tokens", u.CacheWrite},
		{"usage.cache_write_hour_tokens", u.CacheWriteHour},
		{"usage.tool_calls", u.Tools},
		{"usage.file_searches", u.FileSearches},
		{"usage.code_sessions", u.CodeSessions},
		{"output_tokens", e.Produced.Tokens},
		{"deltas", e.Produced.Deltas},
	} {
		if n.value < 0 || n.value > maxTokens {
			return n.param, fmt.Sprintf("%s must be from 0 to %d, not %d", n.param, maxTokens, n.value)
		}
	}
	if wrong := wrongText(u.Tier, maxTier); wrong != "" {
		return "usage.service_tier", "usage.service_tier " + wrong
	}
	return "", ""
}

// Outcome is the way in which a call ended.
type Outcome int

// The outcomes of calls.
const (
	// Unknown counts as Completed if the Usage is Reported, and else as Cancelled.
	Unknown Outcome = iota
	// Completed is an answer that came to its end.
	Completed
	// AnsweredError is an error in place of an answer. It took no tokens.
	AnsweredError
	// Failed is an answer that the model server broke off.
	Failed
	// Cancelled is a call that its caller broke off.
	Cancelled
	// NotSent is a call that never reached the model server. It took nothing.
	NotSent
	// Expired is a call of which nothing was heard for too long. It counts as broken off by its caller.
	Expired
)

var outcomes = [...]string{"unknown", "completed", "answered_error", "failed", "cancelled", "not_sent", "expired"}

func (o Outcome) String() string {
	if o < 0 || int(o) >= len(outcomes) {
		return fmt.Sprintf("outcome %d", int(o))
	}
	return outcomes[o]
}
