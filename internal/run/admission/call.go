package admission

import (
	"context"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/tracing"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// Call is the life of one governed call. Begin begins it and Close ends it; between them its methods
// are called in the order of the package comment, by one goroutine. Interrupt, Progress and Why may be
// called by any. It holds all of its parts by value, so that a caller with a type of its own for a call
// can hold a Call in it. It must not be copied.
type Call struct {
	ctl   *Controller
	ID    string
	Began time.Time
	Spans *tracing.Call // nil without tracing

	scope  // whose it is, and in which pool
	*Early // how it is over before its answer is
	tries  // its ways to upstreams

	Ask     ask.Ask
	Request governor.Request // made of Ask
	entry   entry

	Lease    governor.Lease
	Admitted time.Time         // zero if it was not
	Cause    *governor.Refusal // by the governor, which has counted it
	Turned   *ask.Refusal      // by llmgov

	Ending  Ending
	Failure error // for the log
}

// Begin begins the life of a call under a policy. The context ends when the caller goes away. A caller whose memory is
// not used again may set Early before, to a part of its own.
func (c *Call) Begin(ctx context.Context, ctl *Controller, p *Policy, id string) {
	c.ctl = ctl
	if c.Early == nil {
		c.Early = &Early{}
	}
	c.ctx = ctx
	c.Policy = p
	c.ID = id
	c.Began = time.Now()
	c.now = &c.first
}

// Stale is returned by Route, Use and Admit if another policy came into force while the call was on
// its way, and the governor does not know its tenant in its pool any more. The call has to begin again:
// see Renew.
var Stale = &ask.Refusal{Status: statusUnavailable, Code: ask.CodeInternal, Message: "The policy has changed."}

// Renew lets a stale call begin again with the policy in force, so that a tenant that is in both
// policies notices nothing: after it come Identify, Route, Estimate and Admit.
func (c *Call) Renew(p *Policy) {
	if p == c.Policy {
		panic("llmgov: BUG: policy and governor know different tenants")
	}
	c.leave()
	c.scope = scope{Policy: p}
	c.Request = governor.Request{}
}

// outdated reports whether another policy is in force than the one of the call. If one is being taken
// over, it waits for that.
func (c *Call) outdated() (is bool) {
	c.ctl.Steady(func() { is = c.Policy != c.ctl.Policy() })
	return is
}

// MaxWait is how long the call may wait in all.
func (c *Call) MaxWait() time.Duration {
	if c.Ask.MaxWait != nil {
		return min(c.Tenant.MaxWait, *c.Ask.MaxWait)
	}
	return c.Tenant.MaxWait
}
