package admission

import (
	"context"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
)

// End ends the lease of an admitted call with its usage, and counts it. Only the first end counts,
// because several may find out that a call is over. The reason is "" unless it failed.
func (c *Call) End(outcome, reason string, u governor.Usage) {
	e := &c.Ending
	if e.Done || c.Admitted.IsZero() {
		return
	}
	e.Last = u
	if c.now.Sent.Load() && !e.Later {
		c.learnAnswer(outcome == telemetry.OK && (!e.Estimated || c.Ask.Answer.Open), u.Output)
	}
	took := c.taken(u, e.Estimated)
	due := c.lost.plus(bill{u, took.MicroUSD})
	u = due.usage
	none := !u.Took()
	all := due.plus(c.paid)
	if c.now.Sent.Load() || !none {
		took.Calls = 1
	}
	// Usage is counted before the lease ends, so that whoever sees that nothing runs any more finds it.
	c.Account.Ended(outcome, reason, took, c.Request.Input+c.Request.Output-all.usage.Input-all.usage.Output)
	lease := c.Lease.Costing(due.microUSD)
	switch {
	case !c.now.Sent.Load() && none:
		lease.Release()
	case e.Later && none:
		lease.Postpone()
	case outcome == telemetry.OK && !e.Later:
		lease.Settle(u)
	default:
		lease.Break(u)
	}
	c.ctl.ongoing.end(c.entry.only)
	e.Done = true
	e.Outcome = outcome
	e.Reason = reason
	e.Usage = all.usage
	e.MicroUSD = all.microUSD
	telemetry.Observe(c.Pool.Metrics.Duration, c.ran(), c.Spans.Exemplar())
	switch outcome {
	case telemetry.Failed:
		if !c.Ask.Told {
			c.Pool.Failures.Add(time.Now())
		}
	case telemetry.Cancelled:
		c.Pool.Metrics.Cancelled.Inc()
	}
	if e.Unread {
		c.Pool.Metrics.Unread.Inc()
	}
	if reason == ReasonIdle {
		c.ctl.metrics.Expired.Inc()
	}
}

// ran is how long the call has run since it was admitted; of one that has ended, by its end.
func (c *Call) ran() time.Duration {
	if c.Ending.ran == 0 {
		c.Ending.ran = time.Since(c.Admitted)
	}
	return c.Ending.ran
}

// Complete ends a call whose answer was whole, with the usage that the upstream reports.
func (c *Call) Complete(u governor.Usage) {
	c.now.Sent.Store(true)
	c.End(telemetry.OK, "", u)
}

// Fail ends a call that its upstream failed, given the class of the failure.
func (c *Call) Fail(class string, u governor.Usage) {
	if !c.Ending.Done {
		if !c.Ask.Told {
			c.Pool.Metrics.UpstreamError(class)
		}
		if BlamesUpstream(class) {
			c.Lease.Failed()
		}
	}
	c.End(telemetry.Failed, class, u)
}

// BlamesUpstream reports whether a class of failures says that the upstream could not do what the call asked for: not that it could not
// be reached, nor that it refused the call.
func BlamesUpstream(class string) bool {
	switch class {
	case ReasonTimeout, ReasonBroken, ReasonIdle, ReasonTruncated, ReasonEvent, ReasonAccount:
		return true
	}
	status, err := strconv.Atoi(class)
	return err == nil && status != statusTooMany && Fails(status)
}

// Postpone lets somebody else charge the call, once its work is done.
func (c *Call) Postpone() {
	c.Ending.Estimated = false
	c.Ending.Unread = false
	c.Ending.Later = true
}

// Charge books a part of the call's usage while it goes on, be it reported or estimated. It reports whether it was booked.
func (c *Call) Charge(u governor.Usage, estimated bool) bool {
	if !u.Took() {
		return true
	}
	req := c.Request
	req.Price = c.Price()
	return c.Book(req, c.Account, c.taken(u, estimated))
}

// Book charges usage that has happened already, and what it cost, even if the limits have no room for it.
func (c *Call) Book(req governor.Request, account *telemetry.Account, took telemetry.Taken) bool {
	u := took.Usage
	req.Input = u.Input
	req.Output = u.Output
	if req.Told { // the call that held something has ended
		req.Input = 0
		req.Output = 0
	}
	req.Forced = true
	lease, rej := governor.Refused(c.ctl.gov.Acquire(context.WithoutCancel(c.ctx), req))
	if rej != nil {
		return false
	}
	account.Took(took)
	lease.Costing(took.MicroUSD).Charge(u)
	return true
}

// Close ends whatever has not ended, and counts the call if it was turned away. A call that was
// admitted and has not ended was broken off by its caller.
func (c *Call) Close() {
	if !c.Admitted.IsZero() && !c.Ending.Done {
		c.End(telemetry.Cancelled, "", c.Guess())
	}
	c.ctl.ongoing.end(c.entry.only)
	c.countTurned()
	c.leave()
}
