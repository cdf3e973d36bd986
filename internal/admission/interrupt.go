package admission

import (
	"context"
	"errors"
	"sync"
)

// ErrDraining is the cause with which callers' contexts are cancelled to cut off the calls that a drain
// could not wait for.
var ErrDraining = errors.New("gateway: shutting down")

// early is how the governor ends a call (governor.Request.Interrupt).
type early struct {
	mu    sync.Mutex
	end   context.CancelCauseFunc // guarded by mu; nil before anything was sent
	cause error                   // guarded by mu
}

// Interrupt ends the call, now or as soon as it is sent. Any goroutine may call it, even after
// the call has ended.
func (c *Call) Interrupt(cause error) {
	c.early.mu.Lock()
	defer c.early.mu.Unlock()
	if c.early.cause == nil {
		c.early.cause = cause
	}
	if c.early.end != nil {
		c.early.end(c.early.cause)
	}
}

// EndBy sets the function that ends the call from now on.
func (c *Call) EndBy(end context.CancelCauseFunc) {
	c.early.mu.Lock()
	defer c.early.mu.Unlock()
	c.early.end = end
	if c.early.cause != nil {
		end(c.early.cause)
	}
}

// Why is the cause for which the governor ended the call early; nil if it did not.
func (c *Call) Why() error {
	c.early.mu.Lock()
	defer c.early.mu.Unlock()
	return c.early.cause
}

// Gone reports whether the caller went away.
func (c *Call) Gone() bool { return c.ctx.Err() != nil && !c.Cut() }

// Cut reports whether the call was cut off, by a drain or by the governor.
func (c *Call) Cut() bool { return c.Drained() || c.Why() != nil }

// Drained reports whether the call was cut off by a drain.
func (c *Call) Drained() bool { return context.Cause(c.ctx) == ErrDraining }

// CutOff is the refusal of a call that was cut off. Why the governor did it is only logged, because it
// concerns this gateway, not its tenants.
func (c *Call) CutOff() *Refusal {
	if c.Drained() {
		return &Refusal{Status: statusUnavailable, Code: CodeDraining, Message: "This gateway is shutting down."}
	}
	return &Refusal{Status: statusUnavailable, Code: CodeStore, Message: "This gateway had to end the call early. Please try again."}
}
