package gateway

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/events"
	"github.com/llmgov/llmgov/internal/objects"
	"github.com/llmgov/llmgov/internal/telemetry"
	"github.com/llmgov/llmgov/streaming"
)

// ending is how an admitted call ended. It is written once.
type ending struct {
	done            bool
	outcome, reason string
	usage           governor.Usage
	estimated       bool           // usage was counted here, not reported by the upstream
	later           bool           // the usage is charged elsewhere, and is not known here
	last            governor.Usage // the part of usage that the last try took
	reported        bool           // the upstream of the last try reported its usage, even if that of earlier ones is estimated
}

var noUsage governor.Usage

// classIdle is the failure of an answer that fell silent.
const classIdle = "idle"

// over ends the lease with what was used, and counts it. Only the first ending counts: the stream,
// the error handler and the deferred finish may all come here.
func (c *call) over(outcome, reason string, u governor.Usage) {
	if c.ending.done {
		return
	}
	c.ending.last = u
	u = u.Plus(c.lost)
	switch {
	case !c.try.sent.Load() && u == noUsage:
		c.lease.Release()
	case c.ending.later && u == noUsage:
		c.lease.Postpone()
	case outcome == telemetry.OK && !c.ending.later:
		c.lease.Settle(u)
	default:
		c.lease.Break(u)
	}
	c.g.ongoing.end(c.ongoing)
	u = u.Plus(c.paid)
	c.ending.done = true
	c.ending.outcome = outcome
	c.ending.reason = reason
	c.ending.usage = u
	c.account.Ended(outcome, reason, u, c.req.Input+c.req.Output)
	telemetry.Observe(c.pool.Metrics.Duration, time.Since(c.admitted), c.spans.Exemplar())
	switch {
	case outcome == telemetry.Failed:
		c.pool.Failures.Add(time.Now())
	case outcome == telemetry.Cancelled:
		c.pool.Metrics.Cancelled.Inc()
	}
	if reason == classIdle {
		c.g.metrics.Expired.Inc()
	}
}

// showFailure lets those who follow the events know of a call that failed. It needs the status that
// the client was answered.
func (c *call) showFailure() {
	e := &c.ending
	if c.g.events == nil || !e.done || e.outcome != telemetry.Failed {
		return
	}
	f := events.Failure{Status: c.w.status, Class: e.reason}
	if c.try.up != nil {
		f.Upstream = c.try.up.name
	}
	if c.failure != nil {
		f.Cause = c.failure.Error()
	}
	now := time.Now()
	c.g.events.Fail(now, c.req, now.Sub(c.admitted), f)
}

func (c *call) failed(class string, u governor.Usage) {
	if !c.ending.done {
		c.pool.Metrics.UpstreamError(class)
	}
	c.over(telemetry.Failed, class, u)
}

// guess estimates the usage of a broken call that reported none. A call that never left
// took nothing, nor did one that the upstream answered with an error.
func (c *call) guess() governor.Usage {
	if !c.try.sent.Load() || c.try.status != 0 && c.try.status/100 != 2 {
		return noUsage
	}
	return c.usageOf(streaming.Result{Cause: streaming.ClientGone})
}

// firstDelta is the first token of a stream.
func (c *call) firstDelta() {
	c.noteFirst()
	c.lease.Progress(0)
}

// noteFirst notes how long the first token took.
func (c *call) noteFirst() {
	c.firstToken = time.Since(c.admitted)
	telemetry.Observe(c.pool.Metrics.FirstToken, c.firstToken, c.spans.Exemplar())
}

// progress renews the lease as the stream flows.
func (c *call) progress(deltas int64) {
	c.lease.Progress(c.outputOf(deltas))
}

// outputOf converts deltas to tokens, by what streams of the model have reported.
func (c *call) outputOf(deltas int64) int64 {
	if deltas == 0 {
		return 0
	}
	return c.estimates.Deltas.Estimate(c.head.Model, tokens.Size{tokens.Text: deltas * tokens.Scale})
}

// brokeOff is what the client is sent when the upstream breaks off in mid-stream.
func (c *call) brokeOff(err error) []byte {
	f := refusal{Code: admission.CodeUpstream, Message: "The upstream " + c.try.up.name + " broke off the stream."}
	switch {
	case c.cut():
		f = c.cutRefusal()
	case err == streaming.ErrIdle:
		f.Code = admission.CodeUpstreamLate
		f.Message = "The upstream " + c.try.up.name + " sent nothing for too long."
	}
	f.Status = http.StatusBadGateway
	return c.dialect().ErrorEvent(&f)
}

// answered ends the lease when an answer, plain or stream, has ended in whatever way.
func (c *call) answered(res streaming.Result) {
	u := c.usageOf(res)
	if c.panicked {
		c.over(telemetry.Failed, "panic", u)
		return
	}
	if c.head.Background && c.later(res, u) {
		u = noUsage
		c.ending.estimated = false
		c.ending.later = true
	}
	switch {
	case res.Cause == streaming.Completed:
		c.learn(res)
		c.learnOutput(u.Output)
		c.over(telemetry.OK, "", u)
	case c.cut():
		c.failure = c.why()
		c.over(telemetry.Failed, c.cutRefusal().Code, u)
	case res.Cause == streaming.ClientGone:
		c.over(telemetry.Cancelled, "", u)
	default:
		c.failure = res.Err
		class := causeClass[res.Cause]
		if res.Err == streaming.ErrIdle {
			class = classIdle
		}
		c.failed(class, u)
	}
}

// later reports whether the answer of a background response is charged elsewhere: once it is done
// and somebody looks, or it was already. A stream that tells what it took is charged like any
// other. One that broke off goes on at the upstream, unless it was seen to be gone.
func (c *call) later(res streaming.Result, u governor.Usage) bool {
	if c.owed == "" { // for a plain answer that is set later: see notedAnswer
		return !res.Reported && !c.head.Stream && res.Cause == streaming.Completed
	}
	mine := false
	c.failure = c.g.objects.Collect(objects.Key{Upstream: c.try.up.name, ID: c.owed}, func(d *objects.Debt) bool {
		d.Streams = false
		d.Output = u.Output
		mine = d.Untold || res.Reported && res.Cause == streaming.Completed
		return mine
	})
	return !mine
}

var causeClass = map[streaming.Cause]string{
	streaming.Truncated: "truncated", streaming.UpstreamFailed: "event",
}

// usageOf is what the upstream reported. Without a report it is the estimated prompt and the deltas
// that were counted.
//
// If there are none, the upstream may have produced what nobody saw: a plain answer that broke off, or the
// reasoning before the first delta of a stream. It is taken to have produced as much as calls of its
// pool do in the time that it ran, at most what it was held at. A stream that the upstream itself ended
// before its first delta has produced nothing: otherwise an outage would use up its callers' limits.
func (c *call) usageOf(res streaming.Result) governor.Usage {
	if res.Reported {
		c.ending.reported = true
		return governor.Usage(res.Usage)
	}
	c.ending.estimated = true
	u := governor.Usage{Input: c.req.Input}
	if res.Usage.Input > 0 { // even a stream that broke off may have told its prompt
		u.Input, u.CachedInput = res.Usage.Input, res.Usage.CachedInput
	}
	switch {
	case res.Deltas > 0:
		u.Output = c.outputOf(res.Deltas)
	case c.route.Open && res.Cause == streaming.Completed: // providers count no tokens of such models
	case !c.head.Stream || res.Cause == streaming.Completed || c.gone(): // 0 on routes whose calls produce no output tokens
		u.Output = c.pool.Produced(time.Since(c.try.began), c.req.Output)
	}
	return u
}

// learn calibrates the estimates by a whole answer whose usage was reported.
func (c *call) learn(res streaming.Result) {
	if !res.Reported {
		return
	}
	u := res.Usage
	c.estimates.Prompts.Observe(c.head.Model, c.head.Size(c.pool.DefaultMaxOutput), u.Input-c.head.Referred.Tokens)
	c.estimates.Deltas.Observe(c.head.Model, tokens.Size{tokens.Text: res.Deltas * tokens.Scale}, u.Output)
	c.pool.Observe(u.Output, time.Since(c.try.began))
	if took := u.Input + u.Output; took > 0 {
		c.pool.Metrics.EstimateError.Observe(float64(c.req.Input+c.req.Output) / float64(took))
	}
}

// finish ends what has not ended, counts the call, and writes its log line. It is deferred, so that
// it runs even if a handler panics.
func (c *call) finish() {
	cause := recover()
	broken := cause != nil // the answer is not whole
	if cause != nil && cause != http.ErrAbortHandler {
		c.g.log.Error("panic", "request_id", c.id, "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
		crash(cause)
		if c.w.status == 0 {
			c.refuse(&refusal{Status: http.StatusInternalServerError, Code: admission.CodeInternal, Message: "The gateway failed. The request id helps whoever runs it to find out why."})
			broken = false
		}
	}
	c.endAdmitted(cause)
	c.held.Release()
	c.g.ongoing.end(c.ongoing)
	c.memory.Release()
	c.giveUp()
	c.countTurned()
	c.showFailure()
	if c.account != nil {
		c.account.Release()
	}
	c.report()
	c.w.end()
	if broken {
		panic(http.ErrAbortHandler) // closes the connection
	}
}

// endAdmitted ends an admitted call that nothing has ended yet: the upstream answered with an
// error, or a handler panicked.
func (c *call) endAdmitted(cause any) {
	if c.admitted.IsZero() || c.ending.done {
		return
	}
	c.panicked = cause != nil && cause != http.ErrAbortHandler
	if c.answer != nil {
		_ = c.answer.Close() // ends it with what had come
	}
	switch {
	case c.ending.done:
	case c.gone():
		c.over(telemetry.Cancelled, "", c.guess())
	case c.panicked:
		c.over(telemetry.Failed, "panic", c.guess())
	case c.try.status >= 500, c.try.status == http.StatusTooManyRequests:
		c.failed(strconv.Itoa(c.try.status), noUsage)
	default:
		c.over(telemetry.OK, "", noUsage) // the caller's own error, passed on
	}
}

// countTurned counts a call that llmgov turned away before the governor was asked. The governor
// counts its own refusals.
func (c *call) countTurned() {
	if c.turned == nil || c.ending.done || c.rejection != nil {
		return
	}
	tenant := ""
	tier := ""
	pool := ""
	if c.tenant != nil {
		tenant, tier = c.tenant.Name, c.tenant.Tier
	}
	if c.pool != nil {
		pool = c.pool.Name
	}
	c.g.metrics.Turned(tenant, tier, pool, c.turned.Code)
}
