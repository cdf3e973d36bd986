package admission

import (
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/streaming"
)

// failures are the reasons of answers that the upstream ended.
var failures = map[streaming.Cause]string{
	streaming.Truncated: ReasonTruncated, streaming.UpstreamFailed: ReasonEvent,
}

// Answered ends the call when its answer, plain or stream, has ended in whatever way.
func (c *Call) Answered(res streaming.Result) { c.AnsweredWith(res, c.Metered(res)) }

// AnsweredWith is Answered with the usage that is to be charged.
func (c *Call) AnsweredWith(res streaming.Result, u governor.Usage) {
	c.learnPrompt(res)
	switch {
	case c.Ending.Panicked:
		c.End(telemetry.Failed, "panic", u)
	case res.Cause == streaming.Completed:
		c.learn(res)
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
