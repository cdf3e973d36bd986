package gateway

import (
	"net/http"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/gateway/dialect"
	"github.com/llmgov/llmgov/internal/gateway/head"
	"github.com/llmgov/llmgov/internal/gateway/route"
	"github.com/llmgov/llmgov/internal/splice"
	"github.com/llmgov/llmgov/internal/telemetry"
)

// choosePool finds the pool that serves the model.
func (c *call) choosePool() *refusal {
	if c.route.ToObjects() && !c.route.Realtime {
		return c.chooseHome()
	}
	return c.routed(c.Route(c.head.Model, c.route.AnyModel))
}

// use takes a pool for the call's own.
func (c *call) use(p *poolSide) *refusal { return c.routed(c.Use(p.Pool)) }

// routed finds the upstreams of the pool that was chosen.
func (c *call) routed(f *refusal) *refusal {
	if f == admission.Stale {
		return c.again(c.choosePool)
	}
	if c.Pool != nil {
		c.pool = c.world.pools[c.Pool.Index]
	}
	if f != nil {
		return f
	}
	c.tries.may = c.pool.serving(c.route, c.realModel())
	c.tries.pinned = false
	if c.tries.may == 0 {
		return c.servedByNone()
	}
	return nil
}

// admit describes the call, edits its body accordingly, and waits until it is admitted.
func (c *call) admit() *refusal {
	edits := c.edits()
	c.describe()
	if f := c.Estimate(); f != nil {
		return f
	}
	return c.acquire(edits)
}

// edits are the changes of the body that the upstream gets.
func (c *call) edits() []splice.Edit {
	var edits []splice.Edit
	if c.route.Bounds != nil && c.Tenant.MaxOutputTokens > 0 {
		edits = c.head.Clamp(edits, c.route.Bounds, c.Tenant.MaxOutputTokens)
	}
	if c.route.Chunked && c.head.Stream {
		edits, c.withhold = c.head.AskForUsage(edits)
	}
	if real := c.realModel(); real != c.head.Model || c.head.Deployed {
		edits = c.rename(edits, real)
	}
	return edits
}

// describe describes the call to package admission.
func (c *call) describe() {
	h := c.head
	a := &c.Ask
	a.Model = h.Model
	a.Instead = nil
	for _, o := range h.Others {
		if o.Instead {
			a.Instead = append(a.Instead, o.Model)
		}
	}
	a.Stream = h.Stream
	a.Free = c.route.ToObjects() || c.route.Free // one request; a socket's tokens are counted as they come
	a.Prompt = admission.Prompt{Size: h.Size(c.pool.DefaultMaxOutput), Own: h.Prompt.Size, Before: h.Referred.Tokens}
	if c.route.Body == dialect.JSON {
		a.Prompt.Body = c.body
	}
	a.Answer = answerOf(c.route, h)
	a.Retry = c.retry()
}

// answerOf is how long the answer to a call of a route may become.
func answerOf(r *route.Route, h *head.Head) admission.Answer {
	return admission.Answer{Bound: h.Bound(r.Bounds), Copies: h.Copies, None: !r.Open && r.Bounds == nil, Open: r.Open, Route: r.Path}
}

// acquire waits until the call is admitted.
func (c *call) acquire(edits []splice.Edit) *refusal {
	f := c.Admit()
	if f == admission.Stale {
		return c.again(c.choosePool, c.checkReferences, c.admit)
	}
	if f != nil && c.Rejection == nil { // the governor was not asked
		return f
	}
	c.showStanding()
	if f != nil {
		c.w.queued(c.Rejection.Waited)
		return f
	}
	c.w.queued(c.Lease.Waited)
	c.body = splice.InPlace(c.body, edits) // not earlier: a call that waits holds one body, and can begin again
	telemetry.Observe(c.g.metrics.Overhead, time.Since(c.arrived)-(c.Lease.Waited-c.memory.Waited), c.Spans.Exemplar())
	return nil
}

// readHints reads the headers by which callers say how a call is to be treated.
func (c *call) readHints() *refusal {
	switch p := c.r.Header.Get("X-Llmgov-Priority"); p {
	case "", "interactive":
	case "background":
		c.Ask.Background = true
	default:
		return invalid("x-llmgov-priority", "x-llmgov-priority must be interactive or background, not "+quoted(p)+".")
	}
	if text := c.r.Header.Get("X-Llmgov-Max-Wait"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return invalid("x-llmgov-max-wait", "x-llmgov-max-wait must be a duration such as 500ms or 3s, not "+quoted(text)+".")
		}
		c.Ask.MaxWait = &d
	}
	return nil
}

// servedByNone refuses a call to a route that none of the pool's upstreams has.
func (c *call) servedByNone() *refusal {
	var kinds []string
	for _, u := range c.pool.upstreams {
		kinds = append(kinds, u.Name+" ("+u.Provider.Kind+")")
	}
	return &refusal{
		Status: http.StatusNotFound, Code: admission.CodeNotFound,
		Message: "Pool " + c.pool.Name + " has no upstream that serves " + c.r.Method + " " + brief(c.r.URL.Path) + " for " + quoted(brief(c.head.Model)) +
			": it has " + strings.Join(kinds, ", ") + ".",
	}
}
