package gateway

import (
	"context"
	"net/http"
	"sync"

	"github.com/llmgov/llmgov/internal/admission"
)

// early is how the governor ends a call (governor.Request.Interrupt).
type early struct {
	mu    sync.Mutex
	end   context.CancelCauseFunc // guarded by mu; nil before anything was sent
	cause error                   // guarded by mu
}

// interrupted ends the call, now or as soon as it is sent. Any goroutine may call it, even after
// the call has ended.
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

// endBy sets the function that ends the call from now on.
func (c *call) endBy(end context.CancelCauseFunc) {
	c.early.mu.Lock()
	defer c.early.mu.Unlock()
	c.early.end = end
	if c.early.cause != nil {
		end(c.early.cause)
	}
}

// why is why the governor ended the call early; nil if it did not.
func (c *call) why() error {
	c.early.mu.Lock()
	defer c.early.mu.Unlock()
	return c.early.cause
}

// cut reports whether the call was cut off, by a drain or by the governor.
func (c *call) cut() bool { return c.drained() || c.why() != nil }

// drained reports whether the call was cut off by a drain.
func (c *call) drained() bool { return context.Cause(c.r.Context()) == ErrDraining }

// cutRefusal is what the caller of a call that was cut off is told. Why the governor did it is only
// logged: it concerns this gateway, not its tenants.
func (c *call) cutRefusal() refusal {
	f := refusal{Status: http.StatusServiceUnavailable, Code: admission.CodeDraining, Message: "This gateway is shutting down."}
	if !c.drained() {
		f.Code = admission.CodeStore
		f.Message = "This gateway had to end the call early. Please try again."
	}
	return f
}
