package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/coder/websocket"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/ops/crash"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/proxy/answers"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/proxy/gateway/realtime"
	"github.com/llmgov/llmgov/internal/proxy/intake"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// serveRealtime passes a session on in both directions, while its lease lives.
func (c *call) serveRealtime() {
	upstream, err := c.dialRealtime()
	if err != nil {
		c.listFailed(err)
		return
	}
	protocols := []string{}
	if p := upstream.Subprotocol(); p != "" {
		protocols = append(protocols, p)
	}
	s := c.newSession(upstream)
	// The key is sent on purpose, not by a browser that was lured here, so the origin
	// does not matter.
	client, err := websocket.Accept(c.w, c.r, &websocket.AcceptOptions{Subprotocols: protocols, InsecureSkipVerify: true, OnPingReceived: s.Pinged})
	if err != nil { // Accept has answered the client
		_ = upstream.CloseNow()
		c.Failure = err
		c.End(telemetry.Failed, "handshake", noUsage)
		return
	}
	c.w.Status = http.StatusSwitchingProtocols
	limit := c.world.Snapshot.Config().MaxBody
	client.SetReadLimit(limit)
	upstream.SetReadLimit(max(limit, maxAnswer))
	draining := c.g.sockets.Enter()
	defer c.g.sockets.Leave()
	c.Lease = governor.Lease{} // the session's from here on
	s.Run(client, draining)
}

// newSession makes the session of an admitted call.
func (c *call) newSession(upstream *websocket.Conn) *realtime.Session {
	request := c.Request
	request.Price = c.Price()
	return realtime.New(realtimeCall{c}, realtime.Terms{
		Governor:  c.g.gov,
		Account:   c.Account,
		Request:   request,
		Lease:     c.Lease,
		Model:     c.head.Model,
		MaxOutput: c.Tenant.MaxOutputTokens,
		Shadow:    c.Tenant.Shadow,
		Patience:  c.world.Snapshot.Config().Timeouts.StreamIdle,
	}, upstream)
}

// dialRealtime connects to an upstream, trying others if the first does not work.
func (c *call) dialRealtime() (*websocket.Conn, error) {
	for {
		conn, resp, err := c.dialOnce()
		if resp != nil && resp.StatusCode == http.StatusSwitchingProtocols && err != nil {
			resp = nil // no answer came
		}
		var said upstreams.Outcome
		if resp != nil && err != nil {
			answers.Decode(resp)
			resp.Body = answers.NewBody(resp.Body, c.try.up.Secrets)
		}
		if resp != nil {
			said = c.classify(resp, nil)
		} else {
			said = c.classify(nil, err)
		}
		c.tell(said)
		switch {
		case err == nil:
			return conn, nil
		case said != upstreams.Served && said != upstreams.Abandoned && c.tryAgain(said, nil, err):
			continue
		case resp == nil || resp.StatusCode/100 == 2:
			return nil, err
		}
		if err := c.try.withheld(resp); err != nil {
			return nil, err
		}
		body, _ := io.ReadAll(resp.Body) // in memory, and at most a kilobyte
		return nil, &upstreamSaid{resp.StatusCode, resp.Header, body}
	}
}

// dialOnce connects to the upstream of the present try.
func (c *call) dialOnce() (*websocket.Conn, *http.Response, error) {
	ctx, cancel := context.WithTimeout(c.r.Context(), c.headWithin(true))
	defer cancel()
	query := maps.Clone(c.query)
	query.Set("model", c.try.model)
	return websocket.Dial(ctx, c.try.up.Address.URL(c.at.Path, c.try.model, query), &websocket.DialOptions{
		HTTPClient: &http.Client{
			Transport:     c.try.up.By(c.g.transport),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		HTTPHeader:   c.upstreamHeader(c.r.Header),
		Subprotocols: realtime.Protocols(c.r.Header),
	})
}

// realtimeCall is the call of a session, as the session sees it.
type realtimeCall struct{ c *call }

// Context implements realtime.Call.
func (r realtimeCall) Context() context.Context { return r.c.r.Context() }

// Upstream implements realtime.Call.
func (r realtimeCall) Upstream() string { return r.c.try.up.Name }

// messageWait is how long a message waits for memory at least, since without it its session ends.
const messageWait = 2 * time.Second

// Receive implements realtime.Call.
func (r realtimeCall) Receive(ctx context.Context, from io.Reader) (text []byte, release func(), f *ask.Refusal, err error) {
	memory := &intake.Claim{}
	text, err = r.c.readGrowing(ctx, memory, from, max(r.c.MaxWait(), messageWait))
	if err == nil {
		return text, memory.Release, nil, nil
	}
	memory.Release()
	if full, ok := errors.AsType[*intake.Refused](err); ok {
		f = r.c.noMemory(full)
	}
	return nil, nil, f, err
}

// Revoked implements realtime.Call.
func (r realtimeCall) Revoked() *ask.Refusal {
	c := r.c
	t, k, err := c.g.world.Load().Whose(c.credential())
	if err == nil && !k.Expired(time.Now()) && t.Name == c.Tenant.Name && t.Routes.Has(c.route.Grant) && t.MayUse(c.head.Model) {
		return c.Barred(0)
	}
	return &refusal{Status: http.StatusUnauthorized, Code: ask.CodeKey, Message: "The API key may not use this any more."}
}

// Barred implements realtime.Call.
func (r realtimeCall) Barred(waited time.Duration) *ask.Refusal { return r.c.Barred(waited) }

// CheckModel implements realtime.Call.
func (r realtimeCall) CheckModel(model string) *ask.Refusal {
	if r.c.mayUse(model) {
		return nil
	}
	return admission.NotGranted(r.c.Tenant.Name, "model", model)
}

// CheckReference implements realtime.Call.
func (r realtimeCall) CheckReference(ref head.Reference) *ask.Refusal {
	if r.c.sees(r.c.try.up.Name, ref.ID) {
		return nil
	}
	return noObject(ref.Key, ref.ID)
}

// Hide implements realtime.Call.
func (r realtimeCall) Hide(text []byte) { r.c.try.up.Secrets.Hide(text) }

// EstimatePrompt implements realtime.Call.
func (r realtimeCall) EstimatePrompt(size tokens.Size) int64 {
	return r.c.Estimates.Prompts.Estimate(r.c.head.Model, size)
}

// UnreportedPrompt implements realtime.Call.
func (r realtimeCall) UnreportedPrompt(size tokens.Size, text tokens.Excerpt) int64 {
	return r.c.Unreported(&ask.Prompt{Size: size, Excerpt: text})
}

// MostOutput implements realtime.Call.
func (r realtimeCall) MostOutput() int64 {
	return r.c.MostOutput(r.c.head.Model, &ask.Answer{})
}

// LearnOutput implements realtime.Call.
func (r realtimeCall) LearnOutput(u governor.Usage) {
	r.c.Policy.LearnMore(r.c.Tenant.Name, r.c.Pool.Name, r.c.head.Model, ask.Prompt{}, u, governor.Usage{Output: u.Output})
}

// EstimateOutput implements realtime.Call.
func (r realtimeCall) EstimateOutput(deltas int64) int64 { return r.c.OutputOf(deltas) }

// Charge implements realtime.Call.
func (r realtimeCall) Charge(u governor.Usage, estimated bool) bool { return r.c.Charge(u, estimated) }

// Took implements realtime.Call.
func (r realtimeCall) Took(u governor.Usage, estimated bool) { r.c.Took(u, estimated) }

// FirstToken implements realtime.Call.
func (r realtimeCall) FirstToken() { r.c.NoteFirst() }

// EndBy implements realtime.Call.
func (r realtimeCall) EndBy(end func(cause error)) { r.c.EndBy(end) }

// Cut implements realtime.Call.
func (r realtimeCall) Cut() (*ask.Refusal, error) {
	return r.c.CutOff(), r.c.Why()
}

// Rejected implements realtime.Call.
func (r realtimeCall) Rejected(event, message string) {
	r.c.g.log.Debug("upstream refuses an event of the gateway", "request_id", r.c.ID, "upstream", r.c.try.up.Name, "event", event, "message", text.Brief(message))
}

// Panicked implements realtime.Call.
func (r realtimeCall) Panicked(cause any) {
	r.c.g.log.Error("panic", "request_id", r.c.ID, "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
	crash.Ends(cause)
}

// Settle implements realtime.Call.
func (r realtimeCall) Settle(end realtime.End) {
	c := r.c
	c.Lease = end.Lease
	if end.Failure != nil {
		c.Failure = end.Failure
	}
	if end.Idle {
		c.g.metrics.Expired.Inc()
	}
	if end.Broken {
		c.Fail(end.Reason, end.Usage)
	} else {
		c.End(end.Outcome, end.Reason, end.Usage)
	}
	c.Ending.Usage = end.Total // for the log
	c.Ending.MicroUSD += end.Paid
	c.Ending.Last = end.Total
}
