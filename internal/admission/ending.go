package admission

import (
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/telemetry"
	"github.com/llmgov/llmgov/streaming"
)

// Ending is how an admitted call ended. It is written once.
type Ending struct {
	Done            bool
	Outcome, Reason string
	Usage           governor.Usage
	Estimated       bool           // the usage was counted here, not reported by the upstream
	Later           bool           // the usage is charged elsewhere, and is not known here
	Panicked        bool           // the gateway failed
	Last            governor.Usage // the part of Usage that the last try took
	Reported        bool           // the upstream of the last try reported its usage, even if that of earlier ones is estimated
	FirstToken      time.Duration  // after admission; 0 if there was none
}

// ReasonIdle is the failure of an answer that fell silent.
const ReasonIdle = "idle"

// failures are the reasons of answers that the upstream ended.
var failures = map[streaming.Cause]string{
	streaming.Truncated: "truncated", streaming.UpstreamFailed: "event",
}

// End ends the lease of an admitted call with what was used, and counts it. Only the first end counts,
// because several may find out that a call is over. The reason is "" unless it failed.
func (c *Call) End(outcome, reason string, u governor.Usage) {
	e := &c.Ending
	if e.Done || c.Admitted.IsZero() {
		return
	}
	e.Last = u
	u = u.Plus(c.tries.lost)
	none := u == governor.Usage{}
	switch {
	case !c.tries.now.Sent.Load() && none:
		c.Lease.Release()
	case e.Later && none:
		c.Lease.Postpone()
	case outcome == telemetry.OK && !e.Later:
		c.Lease.Settle(u)
	default:
		c.Lease.Break(u)
	}
	c.ctl.ongoing.end(c.entry.only)
	u = u.Plus(c.tries.paid)
	e.Done = true
	e.Outcome = outcome
	e.Reason = reason
	e.Usage = u
	c.Account.Ended(outcome, reason, u, c.Request.Input+c.Request.Output)
	telemetry.Observe(c.Pool.Metrics.Duration, time.Since(c.Admitted), c.Spans.Exemplar())
	switch outcome {
	case telemetry.Failed:
		c.Pool.Failures.Add(time.Now())
	case telemetry.Cancelled:
		c.Pool.Metrics.Cancelled.Inc()
	}
	if reason == ReasonIdle {
		c.ctl.metrics.Expired.Inc()
	}
}

// Complete ends a call whose answer was whole, with what the upstream says that it took.
func (c *Call) Complete(u governor.Usage) {
	c.tries.now.Sent.Store(true)
	c.End(telemetry.OK, "", u)
}

// Fail ends a call that its upstream failed, given the class of the failure.
func (c *Call) Fail(class string, u governor.Usage) {
	if !c.Ending.Done {
		c.Pool.Metrics.UpstreamError(class)
	}
	c.End(telemetry.Failed, class, u)
}

// Postpone lets somebody else charge the call, once its work is done.
func (c *Call) Postpone() {
	c.Ending.Estimated = false
	c.Ending.Later = true
}

// Answered ends the call when its answer, plain or stream, has ended in whatever way.
func (c *Call) Answered(res streaming.Result) { c.AnsweredWith(res, c.Metered(res)) }

// AnsweredWith is Answered with the usage that is to be charged.
func (c *Call) AnsweredWith(res streaming.Result, u governor.Usage) {
	switch {
	case c.Ending.Panicked:
		c.End(telemetry.Failed, "panic", u)
	case res.Cause == streaming.Completed:
		c.learn(res, u.Output)
		c.End(telemetry.OK, "", u)
	case c.Cut():
		c.Failure = c.Why()
		c.End(telemetry.Failed, c.CutOff().Code, u)
	case res.Cause == streaming.ClientGone:
		c.End(telemetry.Cancelled, "", u)
	default:
		c.Failure = res.Err
		class := failures[res.Cause]
		if res.Err == streaming.ErrIdle {
			class = ReasonIdle
		}
		c.Fail(class, u)
	}
}
