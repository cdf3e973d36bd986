package gateway

import (
	"net/http"
	"strconv"

	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/ops/tracing"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
)

// spanOfTry begins the span of a try.
func (c *call) spanOfTry(t *try) *tracing.Try {
	if c.Spans == nil {
		return nil
	}
	return c.Spans.Try(tracing.Target{
		Number: c.tries.count, Upstream: t.up.Name, Provider: t.up.Provider.Convention, Base: &t.up.Address.Base, Method: c.r.Method, Route: c.route.Path, Operation: c.route.Operation,
		Model: t.model, Stream: c.head.Stream, MaxTokens: c.head.Bound(c.route.Bounds), Choices: c.head.Copies,
	})
}

// classify is verdict, noted in the span of the try. A try that came to nothing
// ends with that.
func (c *call) classify(resp *http.Response, err error) upstreams.Outcome {
	said := c.verdict(resp, err)
	if c.Spans == nil {
		return said
	}
	failure := ""
	switch {
	case said == upstreams.Abandoned && c.Gone():
		failure = telemetry.Cancelled
	case resp == nil:
		failure = c.try.classOf(err)
	case resp.StatusCode >= 400:
		failure = strconv.Itoa(resp.StatusCode)
	}
	// If the client has gone this was the last try, and its usage is told at the end.
	c.try.span.Answered(c.try.status, said.String(), failure, said != upstreams.Served && said != upstreams.Abandoned)
	return said
}

// endSpans ends the spans that have not ended.
func (c *call) endSpans(s *summary) {
	if c.Spans == nil {
		return
	}
	took := tracing.Took{}
	if e := &c.Ending; e.Done {
		took = tracing.Took{
			Input: e.Last.Input, CachedInput: e.Last.CachedInput, Output: e.Last.Output, Reasoning: e.Last.Reasoning,
			Estimated: e.Estimated && !e.Reported, Failure: e.Reason,
		}
		if e.Outcome == telemetry.Cancelled {
			took.Failure = telemetry.Cancelled
		}
	}
	if c.Ending.FirstToken > 0 {
		took.FirstChunk = c.Admitted.Add(c.Ending.FirstToken).Sub(c.try.Began)
	}
	c.try.span.End(took)
	c.Spans.End(tracing.End{
		Method: c.r.Method, Route: s.route, Status: s.status, ID: c.ID, Tenant: s.tenant, Key: s.key, Pool: s.pool, Model: s.model,
		Outcome: s.outcome, Reason: s.reason, Axis: s.axis, Failed: s.outcome == telemetry.Failed || s.status >= 500,
	})
}
