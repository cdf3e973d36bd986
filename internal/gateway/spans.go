package gateway

import (
	"net/http"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/telemetry"
	"github.com/llmgov/llmgov/internal/tracing"
	"github.com/llmgov/llmgov/internal/upstreams"
)

// askGovernor asks for a lease, and waits.
func (c *call) askGovernor(req governor.Request) (governor.Lease, *governor.Rejection) {
	if c.spans == nil {
		return c.g.gov.Acquire(c.r.Context(), req)
	}
	asked := tracing.Asked{Began: time.Now(), Tenant: req.Tenant, Pool: req.Pool, Held: req.Input + req.Output, Outcome: "admitted"}
	lease, rej := c.g.gov.Acquire(c.r.Context(), req)
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
		asked.Reason, asked.Axis, asked.Of = why.Reason.String(), axisOf(why), "pool"
		if why.Own {
			asked.Of = "tenant"
		}
		asked.Limit = why.Limit
		asked.Used = why.Used
		asked.Tried = why.Asked
		asked.RetryAfter = why.RetryAfter
	}
	c.spans.Asked(asked)
	return lease, rej
}

// spanOfTry begins the span of a try.
func (c *call) spanOfTry(t *try) *tracing.Try {
	if c.spans == nil {
		return nil
	}
	return c.spans.Try(tracing.Target{
		Number: c.tries, Upstream: t.up.name, Provider: t.up.provider.Convention, Base: &t.up.address.Base, Method: c.r.Method, Route: c.route.Path, Operation: c.route.Operation,
		Model: c.realModel(), Stream: c.head.Stream, MaxTokens: c.head.Bound(c.route.Bounds), Choices: c.head.Copies,
	})
}

// judge decides what an answer, or its absence, says of the upstream. A try that came to nothing
// ends with that.
func (c *call) judge(resp *http.Response, err error) upstreams.Outcome {
	said := c.verdict(resp, err)
	if c.spans == nil {
		return said
	}
	failure := ""
	switch {
	case said == upstreams.Abandoned && c.gone():
		failure = telemetry.Cancelled
	case resp == nil:
		failure = c.classOf(err)
	case resp.StatusCode >= 400:
		failure = strconv.Itoa(resp.StatusCode)
	}
	// If the client has gone this was the last try, and what it took is told at the end.
	c.try.span.Answered(c.try.status, said.String(), failure, said != upstreams.Served && said != upstreams.Abandoned)
	return said
}

// endSpans ends the spans that have not ended.
func (c *call) endSpans(s *summary) {
	if c.spans == nil {
		return
	}
	took := tracing.Took{}
	if e := &c.ending; e.done {
		took = tracing.Took{
			Input: e.last.Input, CachedInput: e.last.CachedInput, Output: e.last.Output, Reasoning: e.last.Reasoning,
			Estimated: e.estimated && !e.reported, Failure: e.reason,
		}
		if e.outcome == telemetry.Cancelled {
			took.Failure = telemetry.Cancelled
		}
	}
	if c.firstToken > 0 {
		took.FirstChunk = c.admitted.Add(c.firstToken).Sub(c.try.began)
	}
	c.try.span.End(took)
	c.spans.End(tracing.End{
		Method: c.r.Method, Route: s.route, Status: s.status, ID: c.id, Tenant: s.tenant, Key: s.key, Pool: s.pool, Model: s.model,
		Outcome: s.outcome, Reason: s.reason, Axis: s.axis, Failed: s.outcome == telemetry.Failed || s.status >= 500,
	})
}
