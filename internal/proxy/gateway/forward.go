package gateway

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/lib/cancel"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/gateway/stored"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// forward passes the call on, and returns the answer to be passed back.
func (c *call) forward() (*http.Response, *refusal) {
	c.beginTries()
	resp, err := c.send()
	if err == nil {
		err = c.takeOver(resp)
		if err != nil {
			_ = resp.Body.Close()
		}
	}
	if err != nil {
		return nil, c.unanswered(err)
	}
	return resp, nil
}

// beginTries makes the context of all tries. It ends with the client's, which cancels the upstream at once, or when
// the stream falls silent, or with the call.
func (c *call) beginTries() {
	parent := c.r.Context()
	if c.route.Makes { // the object may exist already, and is recorded even if the client has gone
		parent = context.WithoutCancel(parent)
	}
	ctx := cancel.WithCause(parent)
	c.tries.ctx = ctx
	c.tries.interrupt = ctx.Cancel
	c.EndBy(c.tries.interrupt)
	if !c.route.Makes {
		return
	}
	c.tries.unwatch = context.AfterFunc(c.r.Context(), func() {
		if c.Drained() {
			ctx.Cancel(admission.ErrDraining)
		}
	})
}

// passed are the request headers that reach the upstream. All others stop here: hints about
// tenants, keys and accounts of others, cookies, ways to turn the connection into something else,
// and an Idempotency-Key, which would make the transport resend a call whose answer was lost, and
// by which tenants of one upstream account could collide.
var passed = func() map[string]bool {
	m := map[string]bool{"Accept": true, "User-Agent": true, "Traceparent": true, "Tracestate": true}
	for _, d := range dialect.All {
		for _, name := range d.Passed {
			m[name] = true
		}
	}
	return m
}()

// outgoing is the call as the upstream of the present try is to get it.
func (c *call) outgoing() *http.Request {
	t := c.try
	t.url = t.up.Address.Of(c.at.Path, t.model, c.query)
	out := &http.Request{
		Method: c.r.Method, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		URL:    &t.url,
		Header: c.upstreamHeader(c.r.Header),
		Body:   http.NoBody,
	}
	switch {
	case c.form != nil:
		if t.model != c.named.name {
			c.form.Text("model", t.model)
			c.named.name = t.model
		}
		t.form = c.form.Encode()
		out.Header["Content-Type"] = []string{t.form.Type}
		out.Body = io.NopCloser(t.form.Reader())
		out.ContentLength = t.form.Size
	case c.varies(t):
		v := c.variant(t)
		out.Body = v.open(&c.memory)
		out.ContentLength = v.size()
	case len(c.body) > 0 && t.up.Address.Base.Scheme == "http", c.memory.Reused() && len(c.body) > mostCloned:
		out.Body = c.memory.Open(c.body)
		out.ContentLength = int64(len(c.body))
	case len(c.body) > 0:
		// Of a kind that net/http knows to be in memory, so that it leaves along
		// with the headers in one write through TLS, too. The transport may read it after the handler
		// has returned, so its bytes are not reused.
		t.reader.Reset(c.unshared())
		out.Body = io.NopCloser(&t.reader)
		out.ContentLength = int64(len(c.body))
	}
	// A connection that the upstream closed while idle has delivered nothing, so the
	// transport may send the body again on another one. A call that makes an object is
	// not sent again: the object might exist twice.
	if !c.route.ToObjects() {
		out.GetBody = func() (io.ReadCloser, error) { return c.readAgain(t), nil }
	}
	t.within = c.headWithin(c.head.Stream)
	t.sentSignal = sentSignal{Context: c.tries.ctx, try: t, waits: c.whileWaiting}
	return out.WithContext(&t.sentSignal)
}

// headWithin is how long the upstream may take to begin its answer: a stream or session, or another one.
func (c *call) headWithin(stream bool) time.Duration {
	whole := c.world.Snapshot.Config().Timeouts
	if stream {
		return cmp.Or(c.pool.UpstreamHeader, whole.UpstreamHeader)
	}
	return cmp.Or(c.pool.UpstreamAnswer, whole.UpstreamAnswer)
}

// mostCloned bounds the bodies of which a copy is made so that they leave along with their headers: both fit into one
// buffer of the transport.
const mostCloned = 3 << 10

// unshared is the body in memory that is not used for other bodies.
func (c *call) unshared() []byte {
	if c.memory.Reused() {
		return bytes.Clone(c.body)
	}
	return c.body
}

// readAgain reads the body that a try sends from its beginning.
func (c *call) readAgain(t *try) io.ReadCloser {
	switch {
	case t.form != nil:
		return io.NopCloser(t.form.Reader())
	case c.varies(t):
		return c.variant(t).open(&c.memory)
	case c.memory.Reused():
		return c.memory.Open(c.body)
	}
	return io.NopCloser(bytes.NewReader(c.body))
}

// upstreamHeader makes the headers for the upstream from the caller's.
func (c *call) upstreamHeader(in http.Header) http.Header {
	h := make(http.Header, len(in)+1) // the caller's key, length and encodings are not passed
	for name, values := range in {
		if passed[name] || strings.HasPrefix(name, "X-Stainless-") || c.try.up.Provider.Passes(name, values) {
			h[name] = values
		}
	}
	if c.route.Body == dialect.JSON {
		h["Content-Type"] = contentJSON // the head was read as that
	}
	c.try.up.Sign(h)
	c.try.span.Inject(h)
	c.UpstreamHeaders(h.Set)
	h["X-Request-Id"] = c.w.Header()["X-Request-Id"]
	h["Accept-Encoding"] = identity // usage must be readable as it passes
	if _, said := h["User-Agent"]; !said {
		h["User-Agent"] = unsaid // otherwise net/http would name itself
	}
	return h
}

var (
	contentJSON = []string{"application/json"}
	identity    = []string{"identity"}
	unsaid      = []string{""}
)

// forgetBody drops the body once the upstream has it: streams last long, and prompts are large. If
// the transport may still read it for the first try, it is kept until the call ends.
func (c *call) forgetBody() {
	if !c.try.bodySent.Load() || c.tries.count > 1 && !c.tries.first.bodySent.Load() {
		return
	}
	for _, t := range []*try{c.try, c.tries.first} {
		t.reader.Reset(nil)
		t.form = nil
	}
	c.body = nil
	c.form = nil
	c.memory.Release()
}

// unanswered ends a call for which there is no answer of the upstream's to pass on.
func (c *call) unanswered(err error) *refusal {
	name := c.try.up.Name
	c.Failure = err
	f := &refusal{Status: http.StatusBadGateway, Code: ask.CodeUpstream}
	class := c.try.classOf(err)
	switch {
	case c.Gone():
		c.End(telemetry.Cancelled, "", c.Guess())
		return &refusal{Status: admission.StatusClientClosed}
	case c.Cut():
		f = c.CutOff()
		c.End(telemetry.Failed, f.Code, c.Guess()) // which is no failure of the upstream
		return f
	case errors.Is(err, stored.ErrNotKept):
		c.End(telemetry.Failed, ask.CodeStore, noUsage)
		return &refusal{Status: http.StatusServiceUnavailable, Code: ask.CodeStore, Message: "This gateway cannot keep whose the object is at the moment, so it was not made. Please try again."}
	case errors.Is(err, stored.ErrUnreadable):
		f.Message = "The upstream " + name + " answered with something else than what was asked for."
	case errors.Is(err, errRedirected):
		f.Message = "The upstream " + name + " redirects to another address, which is not followed. Tell whoever runs this gateway: its base_url may be wrong."
	case errors.Is(err, errUpstreamKey):
		f.Message = "The upstream " + name + " refuses the gateway's key. Tell whoever runs this gateway."
	case class == classConnect:
		f.Message = "The upstream " + name + " cannot be reached."
	case class == admission.ReasonTimeout:
		f.Message = "The upstream " + name + " did not answer in time."
		f.Status = http.StatusGatewayTimeout
		f.Code = ask.CodeUpstreamLate
	default:
		f.Message = "The upstream " + name + " failed before it answered."
	}
	c.Fail(class, c.Guess())
	return f
}
