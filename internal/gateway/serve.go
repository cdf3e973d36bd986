package gateway

import (
	"net/http"

	"github.com/llmgov/llmgov/internal/crash"
	"github.com/llmgov/llmgov/internal/gateway/describe"
	"github.com/llmgov/llmgov/internal/gateway/route"
	"github.com/llmgov/llmgov/internal/gateway/stored"
)

// ServeHTTP walks one request through the gateway. Read it top to bottom.
func (g *Gateway) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	c := &call{g: g, world: g.world.Load(), r: r}
	c.tries.interrupt = func(error) {} // nothing was sent yet
	c.stored = stored.Ledger{Call: &c.Call, Store: g.objects, Holds: &g.batches}
	c.Begin(r.Context(), g.admission, c.world.Policy, describe.RequestID(r.Header))
	c.try = &c.tries.first
	c.Spans = g.tracer.Begin(r, c.Began)
	c.w.reset(rw, c.world.Snapshot.Config().Timeouts.StreamIdle)
	// Until the body is here. net/http drains it even if nobody reads it.
	_ = c.w.control.SetReadDeadline(c.Began.Add(lapTime))
	c.showOwn()
	defer crash.Deferred()
	defer c.finish()

	// 1 Which route is it for, and who asks?
	c.at = route.Find(r)
	c.route = c.at.Route
	if f := c.unfit(); f != nil {
		c.refuse(f)
		return
	}
	if f := c.authenticate(); f != nil {
		c.refuse(f)
		return
	}
	if f := c.granted(); f != nil {
		c.refuse(f)
		return
	}
	if c.at.Usage || c.at.Models {
		c.serveLookup()
		return
	}

	// 2 What does it ask for, and of which pool?
	if f := c.readBody(); f != nil {
		c.refuse(f)
		return
	}
	if f := c.choosePool(); f != nil {
		c.refuse(f)
		return
	}
	if f := c.checkReferences(); f != nil {
		c.refuse(f)
		return
	}
	if f := c.checkBackground(); f != nil {
		c.refuse(f)
		return
	}

	// 3 May it? This is where it waits.
	if f := c.admit(); f != nil {
		c.refuse(f)
		return
	}

	// 4 Pass it on, to the upstream whose turn it is, and meter the answer.
	if f := c.firstTry(); f != nil {
		c.refuse(f)
		return
	}
	switch {
	case c.route.List:
		c.serveList()
	case c.route.Realtime:
		c.serveRealtime()
	default:
		c.lookAfter()
		c.lookBack()
		if f := c.holdBatch(); f != nil {
			c.refuse(f)
			return
		}
		c.forward()
	}
}
