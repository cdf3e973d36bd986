package gateway

import (
	"context"
	"net/http"
	"sync"
)

// early is how a call is ended by the governor (governor.Request.Interrupt).
type early struct {
	mu    sync.Mutex
	end   context.CancelCauseFunc // guarded by mu; nil before anything was sent
	cause error                   // guarded by mu
}

// interrupted ends the call, now or as soon as it is sent. It is called by any goroutine, and
// also when the call has ended.
func (c *call) interrupted(cause error) {
	c.early.mu.Lock()
	defer c.early.mu.Unlock()
	if c.early.cause == nil {
		c.early.cause = cause
	}
	if c.early.end != nil {
		c.early.end(c.early.cause)
	}
}

// endBy says what ends the call from now on.
func (c *call) endBy(end context.CancelCauseFunc) {
	c.early.mu.Lock()
	defer c.early.mu.Unlock()
	if c.early.end = end; c.early.cause != nil {
		end(c.early.cause)
	}
}

// why is why the call was ended early; nil if it was not.
func (c *call) why() error {
	c.early.mu.Lock()
	defer c.early.mu.Unlock()
	return c.early.cause
}

// cut reports whether the call was cut: by a drain, or by the governor.
func (c *call) cut() bool { return c.drained() || c.why() != nil }

// drained reports whether the call was cut by a drain.
func (c *call) drained() bool { return context.Cause(c.r.Context()) == ErrDraining }

// cutRefusal is what the caller of a call that was cut is told. Why the governor did it is for
// the log: it is about this gateway, and not for tenants.
func (c *call) cutRefusal() refusal {
	f := refusal{status: http.StatusServiceUnavailable, code: codeDraining, message: "This gateway is shutting down."}
	if !c.drained() {
		f.code, f.message = codeStore, "This gateway had to end the call early. Please try again."
	}
	return f
}
