package admission

import (
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/ops/tracing"
)

// Acquire asks the governor for a lease, and waits for it. Most callers want Admit, which uses it.
func (c *Call) Acquire(req *governor.Request) (governor.Lease, *governor.Refusal) {
	if c.Spans == nil {
		return governor.Refused(c.ctl.gov.Acquire(c.ctx, *req))
	}
	asked := tracing.Asked{Began: time.Now(), Tenant: req.Tenant, Pool: req.Pool, Held: req.Input + req.Output, Outcome: "admitted"}
	lease, rej := governor.Refused(c.ctl.gov.Acquire(c.ctx, *req))
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
