package client

import (
	"context"
	"net/http"

	"github.com/llmgov/llmgov/governor"
)

// Door is a way to a governor. It is safe for concurrent use.
type Door interface {
	// Reserve waits until the call may begin. It returns what the call holds, or a *Refusal, or, if
	// ctx has ended, ctx.Err(). The context is that of the whole call: its end does not end the lease.
	Reserve(ctx context.Context, req Request) (*Lease, error)
	// Close ends everything that the Door has begun. Calls that hold a lease may still end it.
	Close() error
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

// Outcome is the way in which a call ended.
type Outcome int

// The outcomes of calls.
const (
	// Completed is an answer that came to its end.
	Completed Outcome = iota
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

var outcomes = [...]string{"completed", "answered_error", "failed", "cancelled", "not_sent", "expired"}

func (o Outcome) String() string { return outcomes[o] }
