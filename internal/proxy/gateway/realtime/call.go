package realtime

import (
	"context"
	"io"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// Call is the governed call by which a session was opened. Its methods may be called by several goroutines.
type Call interface {
	// Context ends when the server is shut down.
	Context() context.Context
	// Receive reads a message of the client into memory that counts as that of bodies, until it is released. It refuses a message for which
	// there is none.
	Receive(ctx context.Context, from io.Reader) (text []byte, release func(), f *ask.Refusal, err error)
	// Revoked refuses to go on with a key that could not open the session any more.
	Revoked() *ask.Refusal
	// Barred refuses a response of whom a limit is 0 by now, given how long it has waited for its lease.
	Barred(waited time.Duration) *ask.Refusal
	// CheckModel refuses a model that the tenant may not use.
	CheckModel(model string) *ask.Refusal
	// CheckReference refuses an object that the tenant may not see.
	CheckReference(head.Reference) *ask.Refusal
	// Hide masks the upstream's key.
	Hide(text []byte)

	// Upstream is the name of the upstream of the session.
	Upstream() string
	// EstimatePrompt is how many tokens something that was said has.
	EstimatePrompt(tokens.Size) int64
	// UnreportedPrompt is how many tokens something that was said is believed to have, also by an excerpt of it, if nobody tells.
	UnreportedPrompt(tokens.Size, tokens.Excerpt) int64
	// MostOutput is how many tokens a response may have that nothing bounds, and LearnOutput learns from one.
	MostOutput() int64
	LearnOutput(governor.Usage)
	// EstimateOutput is how many tokens so many deltas are.
	EstimateOutput(deltas int64) int64
	// Charge books usage for which there is no lease. It reports false if that cannot be booked.
	Charge(u governor.Usage, estimated bool) bool
	// Took counts usage with which a lease of the session was ended.
	Took(u governor.Usage, estimated bool)
	// FirstToken notes that the first part of an answer has come.
	FirstToken()

	// EndBy sets the function by which the governor ends the session early.
	EndBy(func(cause error))
	// Cut is the refusal of a call that was ended early, and the cause.
	Cut() (*ask.Refusal, error)
	// Rejected notes that an event of the gateway's own was refused by the upstream.
	Rejected(event, message string)
	// Panicked notes a panic. It is called by deferred functions.
	Panicked(cause any)
	// Settle ends the call. It is called once.
	Settle(End)
}

// Terms are the terms on which a session was admitted.
type Terms struct {
	Governor *governor.Governor
	Account  *telemetry.Account
	Request  governor.Request // of the session itself
	Lease    governor.Lease   // of the session at rest; the session owns it from here on

	Model     string
	MaxOutput int64 // the most tokens that a response may have; 0 is no limit
	Shadow    bool  // limits are not enforced
	Patience  time.Duration
}

// End is how a session ended.
type End struct {
	Lease   governor.Lease // of the session, or of its last response; it is left to the call
	Usage   governor.Usage // to be charged with it
	Total   governor.Usage // of the whole session
	Paid    int64          // what was charged of it before, in micro-dollars
	Outcome string         // a metric's
	Reason  string         // a metric's; "" is none
	Failure error          // for the log
	Broken  bool           // the upstream broke off
	Idle    bool           // nothing was said for too long
}
