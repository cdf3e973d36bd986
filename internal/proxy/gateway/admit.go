package gateway

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/lib/splice"
	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/proxy/gateway/describe"
	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
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
		return c.restart(c.choosePool)
	}
	if c.Pool != nil {
		c.pool = c.world.pools[c.Pool.Index]
	}
	if f != nil {
		return f
	}
	c.tries.may = c.serving()
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
	edits, what := describe.Edits(&c.route.Route, c.head, c.Tenant.MaxOutputTokens, 0)
	c.withhold = what&upstreams.AddedUsage != 0
	last := len(edits) - 1
	edits = c.rename(edits)
	c.added = [2]added{}
	if c.withhold {
		e := edits[last]
		c.added[0] = addedAt(upstreams.AddedUsage, edits, last, string(c.body[e.Start:e.End]))
		last--
	}
	if what&upstreams.AddedBound != 0 {
		c.added[1] = addedAt(upstreams.AddedBound, edits, last, strings.Replace(edits[last].Text, "max_completion_tokens", "max_tokens", 1))
	}
	return edits
}

// describe describes the call to package admission.
func (c *call) describe() {
	a := &c.Ask
	describe.Ask(a, &c.route.Route, c.head, c.pool.DefaultMaxOutput)
	a.Free = c.route.ToObjects() || c.route.Free // one request; a socket's tokens are counted as they come
	if c.route.Body == dialect.JSON {
		a.Prompt.Body = c.body
	}
	a.Retry = c.retry()
	if c.route.ToObjects() && !c.route.Realtime {
		// new objects are made at the first, because lists look for them there
		c.tries.pin(c.tries.may & -c.tries.may)
	}
	c.tries.of = c.conversation()
	c.tries.scope = c.scope()
	if !c.apart() && c.pool.set.Use(time.Now(), c.tries.scope) {
		c.g.tellHealth(c.pool)
	}
	a.Via = uint64(c.tries.may)
	a.Conversation = uint64(c.tries.of)
}

// scope is the calls that a pause is of which an upstream asks for on account of this one: those of its model that produce text, or of its
// route, and of its tier if it asks for one that is served with what others leave.
func (c *call) scope() upstreams.Scope {
	s := upstreams.Scope{Model: c.realModel(), Class: c.route.Path}
	if c.route.Bounds != nil {
		s.Class = c.head.TierApart()
	}
	return s
}

// acquire waits until the call is admitted.
func (c *call) acquire(edits []splice.Edit) *refusal {
	f := c.Admit()
	if f == admission.Stale {
		return c.restart(c.choosePool, c.checkReferences, c.admit)
	}
	if f != nil && c.Cause == nil { // it was not the governor
		return f
	}
	if f != nil {
		c.showStanding()
		c.showQueued(c.Cause.Waited)
		return f
	}
	memory, start := c.memory.Around(c.body)
	c.body = splice.InPlace(memory, start, edits) // not earlier: a call that waits holds one body, and can begin again
	telemetry.Observe(c.g.metrics.Overhead, time.Since(c.arrived)-(c.Lease.Waited-c.memory.Waited), c.Spans.Exemplar())
	return nil
}

// servedByNone refuses a call to a route that none of the pool's upstreams has.
func (c *call) servedByNone() *refusal {
	var kinds []string
	for _, u := range c.pool.upstreams {
		if c.Tenant.MayReach(u.Name) {
			kinds = append(kinds, u.Name+" ("+u.Provider.Kind+")")
		}
	}
	return &refusal{
		Status: http.StatusNotFound, Code: ask.CodeNotFound,
		Message: "Pool " + c.pool.Name + " has no upstream that serves " + c.r.Method + " " + text.Brief(c.r.URL.Path) + " for " + strconv.Quote(text.Brief(c.head.Model)) +
			": it has " + strings.Join(kinds, ", ") + ".",
	}
}
