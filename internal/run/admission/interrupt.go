package admission

import (
	"context"
	"errors"
	"sync"

	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// ErrDraining is the cause with which callers' contexts are cancelled to cut off the calls that a drain
// could not wait for.
var ErrDraining = errors.New("gateway: shutting down")

// Early is how a call is over before its answer is: its caller goes away, a drain cuts it off, or the
// governor ends it (governor.Request.Interrupt). It is an object of its own, because the governor may know of it
// for a moment longer than the call lasts, and the memory of the call is used again.
type Early struct {
	ctx context.Context // of the caller, who is gone when it ends

	mu    sync.Mutex
	end   context.CancelCauseFunc // guarded by mu; nil before anything was sent
	cause error                   // guarded by mu
}

// Interrupt ends the call, now or as soon as it is sent. Any goroutine may call it, even after
// the call has ended.
func (e *Early) Interrupt(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cause == nil {
		e.cause = cause
	}
	if e.end != nil {
		e.end(e.cause)
	}
}

// EndBy sets the function that ends the call from now on.
func (e *Early) EndBy(end context.CancelCauseFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.end = end
	if e.cause != nil {
		end(e.cause)
	}
}

// Why is the cause for which the governor ended the call early; nil if it did not.
func (e *Early) Why() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cause
}

// Gone reports whether the caller went away.
func (e *Early) Gone() bool { return e.ctx.Err() != nil && !e.Cut() }

// Cut reports whether the call was cut off, by a drain or by the governor.
func (e *Early) Cut() bool { return e.Drained() || e.Why() != nil }

// Drained reports whether the call was cut off by a drain.
func (e *Early) Drained() bool { return context.Cause(e.ctx) == ErrDraining }

// CutOff is the refusal of a call that was cut off. Why the governor did it is only logged, because it
// concerns this gateway, not its tenants.
func (e *Early) CutOff() *ask.Refusal {
	if e.Drained() {
		return &ask.Refusal{Status: statusUnavailable, Code: ask.CodeDraining, Message: "llmgov is shutting down."}
	}
	return &ask.Refusal{Status: statusUnavailable, Code: ask.CodeStore, Message: "llmgov had to end the call early. Please try again."}
}
