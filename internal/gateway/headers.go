package gateway

import (
	"net/http"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/gateway/dialect"
)

// showOwn sets the headers that every answer has.
func (c *call) showOwn() {
	c.w.Header()["X-Request-Id"] = []string{c.ID}
	if c.g.gov.Draining() { // the client's next call should go to another gateway
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
	if mode := c.g.gov.Degraded(pool); mode != "" {
		c.w.Header().Set("X-Llmgov-Degraded", mode)
	}
	st := c.g.gov.Standing(c.Tenant.Name, pool)
	h := c.w.Header()
	showQuota(h, requestHeaders, st.Requests)
	showQuota(h, tokenHeaders, st.Tokens)
	showQuota(h, concurrentHeaders, st.Concurrent)
	c.showRate(dialect.Requests, st.Requests)
	c.showRate(dialect.Tokens, st.Tokens)
}

// showRate shows a limit in the headers of the caller's dialect.
func (c *call) showRate(axis dialect.Axis, q governor.Quota) {
	if show := c.dialect().ShowRate; show != nil && q.Limit != 0 {
		show(c.w.Header(), axis, q, time.Now())
	}
}

// In the canonical form: they are set without converting them.
var (
	requestHeaders    = [3]string{"X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"}
	tokenHeaders      = [3]string{"X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"}
	concurrentHeaders = [3]string{"X-Ratelimit-Limit-Concurrent", "X-Ratelimit-Remaining-Concurrent"}
)

func showQuota(h http.Header, names [3]string, q governor.Quota) {
	if q.Limit == 0 {
		return
	}
	v := make([]string, 3) // one allocation for the three values
	v[0] = strconv.FormatInt(q.Limit, 10)
	v[1] = strconv.FormatInt(q.Remaining, 10)
	h[names[0]] = v[0:1:1]
	h[names[1]] = v[1:2:2]
	if names[2] != "" {
		v[2] = q.Reset.Round(time.Millisecond).String()
		h[names[2]] = v[2:3:3]
	}
}
