package gateway

import (
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/proxy/answers"
	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/gateway/stored"
	"github.com/llmgov/llmgov/internal/run/rateheaders"
	"github.com/llmgov/llmgov/streaming"
)

// takeOver has the upstream's answer metered as it passes.
func (c *call) takeOver(resp *http.Response) error {
	if err := c.try.withheld(resp); err != nil {
		return err
	}
	c.forgetBody()
	idle := c.world.Snapshot.Config().Timeouts.StreamIdle
	switch {
	case resp.StatusCode/100 != 2: // nothing was produced; finish settles
		resp.Body = c.bounded(resp.Body)
	case c.route.ToObjects():
		return c.objectAnswered(resp)
	case isEventStream(resp.Header):
		resp.Header.Del("Content-Length") // withholding and errors change it
		resp.ContentLength = -1
		if c.shows() {
			resp.Body = stored.WatchEvents(resp.Body, watcher{c})
		}
		opt := c.callbacks
		opt.WithholdUsage = c.withhold
		opt.Idle = idle
		opt.Interrupt = c.tries.interrupt
		opt.Quiet = c.w.Begin
		resp.Body = streaming.NewBody(resp.Body, opt)
		c.answer = resp.Body
		c.timed = true
	default:
		c.whole.Reset(resp.Body, streaming.WholeOptions{Text: c.route.Sounds, End: c.callbacks.End})
		resp.Body = &c.whole
		if c.shows() {
			resp.Body = stored.WatchAnswer(resp.Body, watcher{c})
		}
		c.answer = resp.Body
	}
	return nil
}

func isEventStream(h http.Header) bool { return kindOf(h) == "text/event-stream" }

// kindOf is the type of an answer as it is labelled, in lower case.
func kindOf(h http.Header) string {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

// pass gives the client an answer that was taken over.
func (c *call) pass(resp *http.Response) {
	c.passHead(resp)
	err := c.w.Copy(resp)
	_ = resp.Body.Close() // not deferred: after a panic it is finish that ends the answer, and says why
	if err != io.EOF {
		panic(http.ErrAbortHandler) // the answer is not whole, so the connection has to end
	}
}

// showComeBack tells when to come back, if the upstream is busy. A later time that it has said itself stands if no other upstream
// is ready sooner: its pause is only cut here.
func (c *call) showComeBack(said http.Header) {
	sooner := time.Now().Add(c.tries.comeBack).Before(c.tries.paused)
	later := said.Get("Retry-After") != "" && c.tries.wait > c.tries.comeBack+time.Second
	if c.try.busy && (sooner || !later) {
		rateheaders.Retry(c.w.Header(), c.try.status, c.tries.comeBack, false)
	}
}

// passHead sends an answer's status and headers.
func (c *call) passHead(resp *http.Response) {
	c.showAdmitted()
	h := c.w.Header()
	answers.Headers(h, resp.Header, c.try.up.Secrets, dialect.RatePrefixes)
	c.showComeBack(resp.Header)
	c.w.WriteHeader(resp.StatusCode)
}
