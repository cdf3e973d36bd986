package gateway

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/gateway/dialect"
)

// writer is the client's side of a call: it remembers the status, and bounds how long a client that
// reads nothing can hold a lease.
type writer struct {
	http.ResponseWriter
	control  *http.ResponseController
	status   int
	patience time.Duration

	mu       sync.Mutex // held while something is written
	begun    bool       // guarded by mu: the body has begun, or the call is over
	deadline time.Time  // guarded by mu
}

func (w *writer) reset(rw http.ResponseWriter, patience time.Duration) {
	w.ResponseWriter = rw
	w.control = http.NewResponseController(rw)
	w.patience = patience
}

// Unwrap lets http.ResponseController reach the connection.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = true
	w.extend(time.Now())
	return w.ResponseWriter.Write(p)
}

// pass writes a piece of an answer; now says that the piece is to reach the client at once.
func (w *writer) pass(p []byte, now bool) error {
	if _, err := w.Write(p); err != nil || !now {
		return err
	}
	return w.control.Flush()
}

// begin sends the head of an answer whose body is slow to come. Any goroutine may call it, even
// after the call is over.
func (w *writer) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.begun {
		w.extend(time.Now())
		_ = w.control.Flush()
	}
}

// end lets nothing begin any more, and leaves net/http time for its last flush.
func (w *writer) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = true
	w.extend(time.Now())
}

// extend moves the write deadline: not with each chunk, but when a quarter of the patience has
// passed. There is always more than a whole patience left, because over HTTP/2 a deadline resets
// the stream even if nobody is writing.
func (w *writer) extend(now time.Time) {
	if w.deadline.Sub(now) < w.patience+w.patience/4 {
		w.deadline = now.Add(w.patience + w.patience/2)
		_ = w.control.SetWriteDeadline(w.deadline)
	}
}

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

// queued tells the caller how long it waited.
func (w *writer) queued(d time.Duration) {
	if d >= time.Millisecond {
		w.Header().Set("X-Llmgov-Queue-Ms", strconv.FormatInt(d.Milliseconds(), 10))
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
	h[names[0]], h[names[1]] = v[0:1:1], v[1:2:2]
	if names[2] != "" {
		v[2] = q.Reset.Round(time.Millisecond).String()
		h[names[2]] = v[2:3:3]
	}
}
