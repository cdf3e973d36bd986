package admission

import (
	"context"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/telemetry"
	"github.com/llmgov/llmgov/internal/tracing"
)

// entry is how a call gets in.
type entry struct {
	asked  time.Time     // when it first asked to be admitted
	waited time.Duration // before it asked, and under policies before this one
	left   time.Duration // of its wait, if it waited before
	turns  int           // how often it was admitted anew
	only   *ongoingCall  // nil unless it is the only call with its Retry.Key
}

// mostTurns is how often a call is admitted anew, where pauses are short.
const mostTurns = 100

// HasWaited notes that the call waited before it asks the governor, for example for memory.
func (c *Call) HasWaited(d time.Duration) { c.entry.waited += d }

// Waited is how long the call has waited in all.
func (c *Call) Waited() time.Duration {
	if c.Rejection != nil {
		return c.entry.waited + c.Rejection.Waited
	}
	return max(c.Lease.Waited, c.entry.waited)
}

// Admit asks the governor for a lease, and waits for it. Afterwards the call has a lease, or is
// refused, or is Stale.
func (c *Call) Admit() *Refusal {
	if f := c.onlyOne(); f != nil {
		return f
	}
	if c.entry.asked.IsZero() {
		c.entry.asked = time.Now().Add(-c.entry.waited)
	}
	lease, rej := c.Acquire(c.Request)
	if rej != nil && rej.Reason == governor.ReasonUnknown && c.outdated() {
		c.entry.waited += rej.Waited
		return Stale
	}
	if rej != nil {
		return c.rejected(rej)
	}
	lease.Waited += c.entry.waited
	c.holds(lease)
	c.Account.Admitted(c.Request.Input+c.Request.Output, lease.Waited, c.Spans.Exemplar())
	if would := lease.Would; would != nil {
		c.Account.ShadowRefused(would.Reason)
		c.remind(would, true)
	}
	return nil
}

// holds takes over a lease.
func (c *Call) holds(lease governor.Lease) {
	c.Lease = lease
	c.Admitted = time.Now()
	c.entry.only.runs(lease)
}

// rejected takes over a rejection.
func (c *Call) rejected(rej *governor.Rejection) *Refusal {
	c.Rejection = rej
	c.remind(rej, false)
	c.Account.Refused(rej.Reason)
	return Rejected(rej)
}

// Retract refuses a call that was admitted but not sent, as if it had not been admitted.
func (c *Call) Retract(rej *governor.Rejection) *Refusal {
	c.Lease.Release()
	c.Admitted = time.Time{}
	return c.rejected(rej)
}

// MayReadmit reports whether a call whose upstreams have asked for a pause can wait for its end: until
// then the pool admits nobody, and afterwards in fair order.
func (c *Call) MayReadmit(ready time.Time) bool {
	return !c.Tenant.Shadow && c.entry.turns < mostTurns && time.Until(ready) <= c.waitLeft()
}

// waitLeft is the part of its wait that the call has left.
func (c *Call) waitLeft() time.Duration { return c.MaxWait() - time.Since(c.entry.asked) }

// Readmit gives the lease back whole and asks for another, with what is left of the wait. It returns
// nil if the call was admitted anew.
func (c *Call) Readmit() *governor.Rejection {
	left := c.waitLeft()
	c.entry.turns++
	waited := c.Lease.Waited
	c.entry.only.waits()
	c.payLost()
	req := c.Request
	req.MaxWait = &left
	lease, rej := c.Acquire(req)
	if rej != nil {
		return rej
	}
	lease.Waited += waited
	c.holds(lease)
	return nil
}

// Acquire asks the governor for a lease, and waits for it. Most callers want Admit, which uses it.
func (c *Call) Acquire(req governor.Request) (governor.Lease, *governor.Rejection) {
	if c.Spans == nil {
		return c.ctl.gov.Acquire(c.ctx, req)
	}
	asked := tracing.Asked{Began: time.Now(), Tenant: req.Tenant, Pool: req.Pool, Held: req.Input + req.Output, Outcome: "admitted"}
	lease, rej := c.ctl.gov.Acquire(c.ctx, req)
	why := lease.Would
	asked.Waited = lease.Waited
	asked.Shadow = why != nil
	if rej != nil {
		asked.Waited = rej.Waited
		asked.Outcome = telemetry.Refused
		why = rej
	}
	if rej != nil && rej.Reason == governor.ReasonCancelled {
		asked.Outcome = telemetry.Cancelled
		why = nil
	}
	if why != nil {
		asked.Reason = why.Reason.String()
		asked.Axis = AxisOf(why)
		asked.Of = "pool"
		if why.Own {
			asked.Of = "tenant"
		}
		asked.Limit = why.Limit
		asked.Used = why.Used
		asked.Tried = why.Asked
		asked.RetryAfter = why.RetryAfter
	}
	c.Spans.Asked(asked)
	return lease, rej
}

// AxisOf is the axis of the limit that refused, or the name of the budget.
func AxisOf(rej *governor.Rejection) string {
	if rej.Budget.Limit > 0 {
		return rej.Budget.Name()
	}
	return rej.Axis
}

// Charge books a part of what the call takes while it goes on. It reports whether it was booked.
func (c *Call) Charge(u governor.Usage) bool {
	if u == (governor.Usage{}) {
		return true
	}
	return c.Book(c.Request, c.Account, u)
}

// Book charges something that was done already, whatever the limits say.
func (c *Call) Book(req governor.Request, account *telemetry.Account, u governor.Usage) bool {
	req.Input = u.Input
	req.Output = u.Output
	req.Forced = true
	lease, rej := c.ctl.gov.Acquire(context.WithoutCancel(c.ctx), req)
	if rej != nil {
		return false
	}
	lease.Charge(u)
	account.Took(u)
	return true
}
