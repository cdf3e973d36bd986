package client

import (
	"context"
	"fmt"
	"net/http"

	"github.com/llmgov/llmgov/governor"
)

// Door is a way to a governor. It is safe for concurrent use.
type Door interface {
	// Reserve waits until the call may begin. It returns what the call holds, or a *Refusal, or, if
	// ctx has ended, its error. The context is that of the whole call: its end does not end the lease.
	Reserve(ctx context.Context, req Request) (Held, error)
	// Shutdown is Client.Shutdown. Calls that hold a lease may still end it, before and after.
	Shutdown(ctx context.Context) error
}

// Keyring is a Door that knows at once which keys there are. Servers ask it before they read a body, because strangers could send
// any number of large ones.
type Keyring interface {
	// Knows reports whether a key is a tenant's, and has not expired.
	Knows(key string) bool
}

// Pinger is a Door to a governor that may be out of reach.
type Pinger interface {
	// Ping is Client.Ping.
	Ping(ctx context.Context) error
}

// Held is what a Door keeps for one Lease. Its methods do not block for long: a Door to another process
// speaks with it behind them.
type Held interface {
	// Grant is whose it is. It does not change.
	Grant() Grant
	// Progress says how far the call has come, and keeps it from expiring. End may overlap with it; the End of a call
	// that has shown progress has a Produced.
	Progress(Produced)
	// End ends the call. It is called once.
	End(End)
	// EndBy sets the function that the governor ends the call with, should it have to, with a *Refusal
	// as the cause. If it has already, end is called at once.
	EndBy(end context.CancelCauseFunc)
	// Show sets the headers that show an HTTP caller where it stands.
	Show(h http.Header)
}

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
		{"output_tokens", e.Produced.Tokens},
		{"deltas", e.Produced.Deltas},
	} {
		if n.value < 0 || n.value > maxTokens {
			return n.param, fmt.Sprintf("%s must be from 0 to %d, not %d", n.param, maxTokens, n.value)
		}
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
