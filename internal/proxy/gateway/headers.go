package gateway

import (
	"time"

	"github.com/llmgov/llmgov/internal/run/rateheaders"
)

// showOwn sets the headers that every answer has.
func (c *call) showOwn(id []string) {
	c.w.Header()["X-Request-Id"] = id
	if c.g.admission.Leaving() { // the client's next call should go to another gateway
		c.w.Header().Set("Connection", "close")
	}
	if c.r.ContentLength < 0 { // net/http hides a Content-Length beside it, of which another reader may have made two requests
		c.closeAfter()
	}
}

// closeAfter ends the connection after the answer.
func (c *call) closeAfter() {
	if c.r.ProtoMajor == 1 { // other calls share a connection of HTTP/2
		c.w.Header().Set("Connection", "close")
	}
}

// showStanding sets the rate headers, by the limit that leaves least; only by the tenant's own
// while the pool is unknown.
func (c *call) showStanding() {
	pool := ""
	if c.pool != nil {
		pool = c.pool.Name
	}
	c.shown = true
	c.dialect().Show(c.w.Header(), c.g.gov, c.Counted(), pool)
}

// showAdmitted shows a call that was admitted where its tenant stands, and how long it waited, if nothing shows it yet. That
// is not done before the request has left.
func (c *call) showAdmitted() {
	if !c.shown {
		c.showStanding()
		c.showQueued(c.Lease.Waited)
	}
}

// showQueued tells the caller how long the call waited.
func (c *call) showQueued(d time.Duration) { rateheaders.Queued(c.w.Header(), d) }
