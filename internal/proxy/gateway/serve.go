package gateway

import (
	"net/http"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/connections"
	"github.com/llmgov/llmgov/internal/ops/crash"
	"github.com/llmgov/llmgov/internal/proxy/gateway/describe"
	"github.com/llmgov/llmgov/internal/proxy/gateway/relay"
	"github.com/llmgov/llmgov/internal/proxy/gateway/route"
	"github.com/llmgov/llmgov/internal/proxy/gateway/stored"
	"github.com/llmgov/llmgov/streaming"
)

// ServeHTTP walks one request through the gateway. Answers pass on the stack of ServeHTTP alone, because streams
// last, and hold theirs.
func (g *Gateway) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	defer connections.Begin(r.Context()).End()
	if r.Method == http.MethodHead && isBase(r.URL.Path) { // agents ask whether anybody is there when they start
		return
	}
	c := g.begin(rw, r)
	defer crash.Deferred()
	defer c.finish()
	answer, f := c.serve()
	switch {
	case f != nil:
		c.refuse(f)
	case answer != nil:
		c.pass(answer)
	}
}

// isBase reports whether a path is that of a base address, as clients may have it configured.
func isBase(path string) bool {
	base := strings.Trim(path, "/")
	return base == "" || base == "v1"
}

// begin begins the call of a request, in the memory of one that has ended.
func (g *Gateway) begin(rw http.ResponseWriter, r *http.Request) *call {
	c := calls.Get().(*call)
	c.g = g
	c.world = g.world.Load()
	c.r = r
	c.tries.interrupt = func(error) {} // nothing was sent yet
	c.stored = stored.Ledger{Call: &c.Call, Store: g.objects, Holds: &g.batches}
	l := &outliving{}
	c.Early = &l.early
	c.tries.first = &l.first
	c.try = c.tries.first
	c.Begin(r.Context(), g.admission, c.world.Policy, describe.RequestID(r.Header))
	c.Spans = g.tracer.Begin(r, c.Began)
	if c.w == nil {
		c.w = new(relay.Writer)
	}
	if c.callbacks.End == nil {
		c.whileWaiting = c.showAdmitted
		c.callbacks = streaming.Options{ErrorEvent: c.brokeOff, First: c.NoteFirst, Progress: c.Progress, End: c.answered}
	}
	c.w.Reset(rw, c.world.Snapshot.Config().Timeouts.StreamIdle)
	// Until the body is here. net/http drains it even if nobody reads it.
	_ = c.w.Control.SetReadDeadline(c.Began.Add(lapTime))
	l.id[0] = c.ID
	c.showOwn(l.id[:])
	return c
}

// serve is all of a call but the passing of its answer, which it returns if there is one. Read it top to bottom.
func (c *call) serve() (*http.Response, *refusal) {
	// 1 Which route is it for, and who asks?
	c.at = route.Find(c.r)
	c.route = c.at.Route
	if f := c.unfit(); f != nil {
		return nil, f
	}
	if f := c.authenticate(); f != nil {
		return nil, f
	}
	if f := c.granted(); f != nil {
		return nil, f
	}
	if c.at.Usage || c.at.Models {
		c.serveLookup()
		return nil, nil
	}

	// 2 What does it ask for, and of which pool?
	if f := c.readBody(); f != nil {
		return nil, f
	}
	if f := c.choosePool(); f != nil {
		return nil, f
	}
	if f := c.checkReferences(); f != nil {
		return nil, f
	}
	if f := c.checkBackground(); f != nil {
		return nil, f
	}

	// 3 May it? This is where it waits for limits.
	if f := c.admit(); f != nil {
		return nil, f
	}

	// 4 Pass it on, to the upstream whose turn it is, and meter the answer.
	if f := c.firstTry(); f != nil {
		return nil, f
	}
	switch {
	case c.route.List:
		c.showAdmitted()
		c.serveList()
		return nil, nil
	case c.route.Realtime:
		c.showAdmitted()
		c.serveRealtime()
		return nil, nil
	}
	c.lookAfter()
	c.lookBack()
	if f := c.holdBatch(); f != nil {
		return nil, f
	}
	return c.forward()
}
