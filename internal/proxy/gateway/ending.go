package gateway

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/crash"
	"github.com/llmgov/llmgov/internal/ops/events"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/streaming"
)

var noUsage governor.Usage

// showFailure lets those who follow the events know of a call that failed. It needs the status that
// the client was answered.
func (c *call) showFailure() {
	e := &c.Ending
	if c.g.events == nil || !e.Done || e.Outcome != telemetry.Failed {
		return
	}
	f := events.Failure{Status: c.w.Status, Class: e.Reason}
	if c.try.up != nil {
		f.Upstream = c.try.up.Name
	}
	if c.Failure != nil {
		f.Cause = c.Failure.Error()
	}
	now := time.Now()
	c.g.events.Fail(now, c.Request, now.Sub(c.Admitted), f)
}

// brokeOff is the event for the client if the upstream breaks off in mid-stream.
func (c *call) brokeOff(err error) []byte {
	f := &refusal{Code: ask.CodeUpstream, Message: "The upstream " + c.try.up.Name + " broke off the stream."}
	switch {
	case c.Cut():
		f = c.CutOff()
	case err == streaming.ErrEmpty:
		f.Message = "The upstream " + c.try.up.Name + " ended the stream before it began."
	case err == streaming.ErrIdle:
		f.Code = ask.CodeUpstreamLate
		f.Message = "The upstream " + c.try.up.Name + " sent nothing for too long."
	}
	f.Status = http.StatusBadGateway
	return c.dialect().ErrorEvent(f)
}

// answered ends the lease when an answer, plain or stream, has ended in whatever way.
func (c *call) answered(res streaming.Result) {
	u := c.Metered(res)
	if !res.Reported {
		c.stored.Unreported(u)
	}
	if c.head.Background && !c.Ending.Panicked {
		c.stored.Answered(res, u, c.try.up.Name)
		return
	}
	c.AnsweredWith(res, u)
}

// finish ends the call if it has not ended, counts it, and writes its log line. It is deferred, so that
// it runs even if a handler panics.
func (c *call) finish() {
	cause := recover()
	c.tries.end()
	broken := cause != nil // the answer is not whole
	if cause != nil && cause != http.ErrAbortHandler {
		c.g.log.Error("panic", "request_id", c.ID, "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
		crash.Ends(cause)
		if c.w.Status == 0 {
			c.refuse(&refusal{Status: http.StatusInternalServerError, Code: ask.CodeInternal, Message: "The gateway failed. The request id helps whoever runs it to find out why."})
			broken = false
		}
	}
	c.endAdmitted(cause)
	c.noteTaken()
	c.stored.Close()
	c.memory.Release()
	c.giveUp()
	c.showFailure()
	c.Close()
	now := time.Now()
	c.report(now)
	c.w.End(now)
	if broken {
		panic(http.ErrAbortHandler) // closes the connection
	}
	if cause == nil {
		c.reuse()
	}
}

// endAdmitted ends an admitted call that nothing has ended yet: the upstream answered with an
// error, or a handler panicked.
func (c *call) endAdmitted(cause any) {
	if c.Admitted.IsZero() || c.Ending.Done {
		return
	}
	c.Ending.Panicked = cause != nil && cause != http.ErrAbortHandler
	if c.answer != nil {
		_ = c.answer.Close() // ends it with the part that had come
	}
	switch {
	case c.Ending.Done:
	case c.Gone():
		c.End(telemetry.Cancelled, "", c.Guess())
	case c.Ending.Panicked:
		c.End(telemetry.Failed, "panic", c.Guess())
	case c.try.account, admission.Fails(c.try.status):
		c.Fail(c.try.classOf(nil), noUsage)
	default:
		c.End(telemetry.OK, "", noUsage) // the caller's own error, passed on
	}
}
