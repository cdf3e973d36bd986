package extproc

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/lib/encoded"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/proxy/answers"
	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/streaming"
)

// follow sees the answer through to its end.
func (c *call) follow() error {
	for {
		m, err := c.wire.next()
		if err != nil {
			return c.over(err)
		}
		switch {
		case m.GetResponseHeaders() != nil && c.status == 0:
			err = c.wire.send(responseHeaders(c.answer(m.GetResponseHeaders())))
		case m.GetResponseBody() != nil && c.status != 0:
			err = c.pass(m)
		case m.GetResponseTrailers() != nil && c.status != 0:
			c.trailed(m)
			err = c.wire.send(responseTrailers())
		case m.GetRequestTrailers() != nil && c.status == 0:
			err = c.wire.send(requestTrailers())
		default:
			err = outOfOrder(m)
		}
		if err != nil {
			return c.over(err)
		}
	}
}

// answer takes note of the head of an answer. An error costs nothing.
func (c *call) answer(m *pb.HttpHeaders) *pb.CommonResponse {
	upstream := headersOf(m.GetHeaders())
	c.status = 1 // something came
	if n, err := strconv.Atoi(single(m.GetHeaders(), ":status")); err == nil {
		c.status = n
	}
	switch {
	case c.status/100 != 2:
		c.AnsweredError(c.status)
	case m.GetEndOfStream() && !c.Ask.Answer.None && !c.at.Route.Sounds: // nothing comes in place of an answer
		c.Answered(streaming.Result{Cause: streaming.Truncated, Err: streaming.ErrEmpty})
	}
	kind, _, _ := strings.Cut(upstream.Get("Content-Type"), ";")
	c.encoding, c.readable = encoded.Of(upstream["Content-Encoding"])
	c.events = strings.EqualFold(strings.TrimSpace(kind), "text/event-stream") && c.readable

	own := make(http.Header, 12) // the id, and a tenant's standing on all axes
	var remove []string
	for _, l := range answers.LimitsIn(upstream, dialect.RatePrefixes) {
		own[l.As] = upstream[l.Name]
		remove = append(remove, l.Name)
	}
	if id := upstream["X-Request-Id"]; id != nil {
		own["X-Upstream-Request-Id"] = id
	}
	c.show(own)
	for name := range own { // of a name that is set and removed, Envoy removes it
		remove = slices.DeleteFunc(remove, func(other string) bool { return other == name })
	}
	return &pb.CommonResponse{HeaderMutation: mutation(own, remove)}
}

// trailed charges an answer by the metadata of its trailers, if its parts did not come.
func (c *call) trailed(m *pb.ProcessingRequest) {
	if c.Ending.Done {
		return
	}
	u, whole := usageOf(m.GetMetadataContext())
	c.Answered(streaming.Result{Usage: u, Reported: whole, Cause: streaming.Completed})
}

// over ends a call whose stream has ended without trailers. An answer that has no tokens may be whole all the same.
func (c *call) over(cause error) error {
	if c.Cut() {
		f := c.CutOff()
		c.Failure = c.Why()
		c.End(telemetry.Failed, f.Code, c.ran())
		return status.Error(codes.Unavailable, f.Message)
	}
	if c.Ending.Done {
		return ignoreEnd(cause)
	}
	outcome := telemetry.Cancelled
	if c.status != 0 && c.Ask.Answer.None {
		outcome = telemetry.OK
	}
	c.End(outcome, "", c.ran())
	return ignoreEnd(cause)
}

// ran estimates an answer of which nothing is known but how long it ran. Nobody can say that it has produced nothing.
func (c *call) ran() governor.Usage { return c.Metered(streaming.Result{Cause: streaming.Completed}) }

// brokeOff ends a call in the midst of its parts.
func (c *call) brokeOff(res streaming.Result) {
	if c.Cut() {
		c.Answered(res)
		return
	}
	u := c.Metered(res)
	if !res.Reported && res.Deltas == 0 {
		u = c.ran()
	}
	res.Cause = streaming.ClientGone
	c.AnsweredWith(res, u)
}

// finish ends whatever has not ended.
func (c *call) finish() {
	c.forgetBody()
	c.showFailure()
	c.Close()
	c.report()
}
