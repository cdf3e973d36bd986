package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"

	"github.com/llmgov/llmgov/internal/telemetry"
	"github.com/llmgov/llmgov/streaming"
)

// callKey carries the call through httputil.ReverseProxy.
type callKey struct{}

func callOf(r *http.Request) *call {
	c, ok := r.Context().Value(callKey{}).(*call)
	if !ok {
		panic("llmgov: BUG: a request without its call")
	}
	return c
}

// forward passes the call on. Its context ends with the client's, which cancels
// the upstream at once, and can be broken off when the stream falls silent.
func (c *call) forward() {
	parent := c.r.Context()
	if c.route.makes { // the object may be there already: that is recorded, whoever still listens
		parent = context.WithoutCancel(parent)
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, callKey{}, c))
	defer cancel(nil)
	if c.route.makes {
		defer context.AfterFunc(c.r.Context(), func() {
			if c.drained() {
				cancel(ErrDraining)
			}
		})()
	}
	c.ctx, c.interrupt = ctx, cancel
	c.endBy(cancel)
	r := c.r.WithContext(ctx)
	r.ContentLength, r.TransferEncoding, r.Trailer = int64(len(c.body)), nil, nil
	r.Body = http.NoBody // see aim
	c.g.proxy.ServeHTTP(&c.w, r)
}

// passed are the request headers that reach the upstream. All others stop here:
// hints about tenants, other people's keys and accounts, cookies, ways to make
// the connection something else, and an Idempotency-Key, which would make the
// transport send a call again whose answer was lost, and which tenants of one
// upstream account could take from each other.
var passed = map[string]bool{
	"Accept": true, "User-Agent": true, "Openai-Beta": true, "X-Client-Request-Id": true,
	"Anthropic-Version": true, "Anthropic-Beta": true, "Anthropic-Dangerous-Direct-Browser-Access": true,
	"Http-Referer": true, "X-Title": true, // OpenRouter's attribution
	"Traceparent": true, "Tracestate": true,
}

// rewrite makes the upstream's request of the caller's.
func rewrite(pr *httputil.ProxyRequest) {
	c := callOf(pr.In)
	pr.Out.Header = c.upstreamHeader(pr.Out.Header)
	pr.Out.Host = ""
	c.aim(pr.Out)
}

// aim gives a request the address of the try's upstream, and the call's body.
func (c *call) aim(out *http.Request) {
	out.URL = c.try.up.url(c.at.path, c.realModel(), c.passedQuery())
	// Of a kind that the transport knows to be in memory, so that it leaves along
	// with the headers in one write. The transport may read it after the handler
	// has returned, so its bytes are never reused.
	c.try.reader = bytes.NewReader(c.body)
	out.Body = io.NopCloser(c.try.reader)
	if len(c.body) == 0 {
		out.Body = http.NoBody
	}
	// A connection that the upstream closed while it idled took nothing: the
	// transport may send the body again on another. What makes an object is not: it
	// might be there twice.
	if !c.route.toObjects() {
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c.body)), nil }
	}
}

// realModel is what the upstreams call the model.
func (c *call) realModel() string { return c.world.snap.RealModel(c.head.model) }

// passedQuery is what of the query goes to the upstream.
func (c *call) passedQuery() string {
	switch {
	case c.route.toObjects():
		return c.query.Encode()
	case c.at.azure && c.r.URL.RawQuery != "": // the api-version is between the caller and this gateway
		values := c.r.URL.Query()
		values.Del(apiVersionKey)
		return values.Encode()
	}
	return c.r.URL.RawQuery
}

// upstreamHeader makes the upstream's headers of the caller's.
func (c *call) upstreamHeader(in http.Header) http.Header {
	h := make(http.Header, len(in)+4)
	for name, values := range in {
		if passed[name] || strings.HasPrefix(name, "X-Stainless-") {
			h[name] = values
		}
	}
	switch c.route.body {
	case jsonBody:
		h["Content-Type"] = contentJSON // what the head was read as
	case formBody:
		h["Content-Type"] = in["Content-Type"][:1]
	}
	c.try.up.sign(h)
	c.try.span.Inject(h)
	h["X-Request-Id"] = []string{c.id}
	h["Accept-Encoding"] = identity // usage must be readable as it passes
	return h
}

var contentJSON = []string{"application/json"}

// forgetBody lets go of a body that the upstream has: streams last, and prompts
// are large.
func (c *call) forgetBody() {
	if c.try.bodySent.Load() {
		c.try.reader.Reset(nil)
		c.body = nil
	}
}

var identity = []string{"identity"}

// errUpstreamKey is the upstream refusing the operator's key, which is no
// business of the tenant.
var errUpstreamKey = errors.New("the upstream refuses the key it was given")

// modifyResponse takes the upstream's answer over: its headers renamed, its body
// metered.
func modifyResponse(resp *http.Response) error {
	c := callOf(resp.Request)
	if resp.StatusCode == http.StatusUnauthorized {
		return errUpstreamKey
	}
	renameHeaders(resp.Header)
	if c.try.busy {
		showRetry(resp.Header, c.comeBack)
	}
	c.forgetBody()
	idle := c.world.snap.Config().Timeouts.StreamIdle
	switch {
	case resp.StatusCode/100 != 2: // nothing was produced; finish settles
		resp.Body = newIdleBody(resp.Body, idle, c.interrupt)
	case c.route.toObjects():
		return c.objectAnswered(resp)
	case isEventStream(resp.Header):
		resp.Header.Del("Content-Length") // withholding and errors change it
		resp.ContentLength = -1
		if c.shows() {
			resp.Body = &notedEvents{ReadCloser: resp.Body, c: c}
		}
		resp.Body = streaming.NewBody(resp.Body, streaming.Options{
			WithholdUsage: c.withhold,
			Idle:          idle,
			Interrupt:     c.interrupt,
			ErrorEvent:    c.brokeOff,
			First:         c.firstDelta,
			Progress:      c.progress,
			End:           c.answered,
		})
		c.answer = resp.Body
	default:
		resp.Body = streaming.NewWhole(newIdleBody(resp.Body, idle, c.interrupt), streaming.WholeOptions{End: c.answered})
		if c.shows() {
			resp.Body = &notedAnswer{ReadCloser: resp.Body, c: c}
		}
		c.answer = resp.Body
	}
	return nil
}

// isEventStream reports whether an answer is an event stream that can be read. One
// that is encoded, though identity was asked for, passes as it is and is charged
// by estimate.
func isEventStream(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	encoding := h.Get("Content-Encoding")
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream") && (encoding == "" || encoding == "identity")
}

// renameHeaders keeps the upstream's own limits apart from the tenant's, and
// what only concerns the operator's account to the gateway.
func renameHeaders(h http.Header) {
	for name, values := range h {
		for _, prefix := range []string{"X-Ratelimit-", "Anthropic-Ratelimit-"} {
			if rest, ok := strings.CutPrefix(name, prefix); ok {
				delete(h, name)
				h["X-Upstream-Ratelimit-"+rest] = values
			}
		}
	}
	if id := h["X-Request-Id"]; id != nil {
		h["X-Upstream-Request-Id"] = id
		delete(h, "X-Request-Id")
	}
	delete(h, "Set-Cookie")
	delete(h, "Openai-Organization")
	delete(h, "Openai-Project")
}

// upstreamFailed answers when the upstream did not.
func upstreamFailed(_ http.ResponseWriter, r *http.Request, err error) {
	callOf(r).unanswered(err)
}

// unanswered answers when the upstream did not, or cannot be passed on.
func (c *call) unanswered(err error) {
	name := c.try.up.name
	c.failure = err
	f := &refusal{status: http.StatusBadGateway, code: codeUpstream}
	class := c.classOf(err)
	switch {
	case c.gone():
		c.over(telemetry.Cancelled, "", c.guess())
		c.refuse(&refusal{status: statusClientClosed})
		return
	case c.cut():
		*f = c.cutRefusal()
		c.over(telemetry.Failed, f.code, c.guess()) // which is no failure of the upstream
		c.refuse(f)
		return
	case errors.Is(err, errNotKept):
		c.over(telemetry.Failed, codeStore, noUsage)
		c.refuse(&refusal{status: http.StatusServiceUnavailable, code: codeStore, message: "This gateway cannot keep whose the object is at the moment, so it was not made. Please try again."})
		return
	case errors.Is(err, errUnreadable):
		f.message = "The upstream " + name + " answered with something else than what was asked for."
	case errors.Is(err, errUpstreamKey):
		f.message = "The upstream " + name + " refuses the gateway's key. Tell whoever runs this gateway."
	case class == classConnect:
		f.message = "The upstream " + name + " cannot be reached."
	case class == classTimeout:
		f.message = "The upstream " + name + " did not answer in time."
		f.status, f.code = http.StatusGatewayTimeout, codeUpstreamLate
	default:
		f.message = "The upstream " + name + " failed before it answered."
	}
	c.failed(class, c.guess())
	c.refuse(f)
}

// The classes of upstreams that did not answer.
const (
	classConnect = "connect"
	classTimeout = "timeout"
)

// classOf names what a try came to that is not passed on.
func (c *call) classOf(err error) string {
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, errUnreadable):
		return "unreadable"
	case c.try.status != 0 && c.try.status/100 != 2:
		return strconv.Itoa(c.try.status)
	case !c.try.sent.Load():
		return classConnect
	case ok && timeout.Timeout():
		return classTimeout
	}
	return "broken"
}

// ErrDraining is the cause with which a server's base context is cancelled to
// cut the calls that a drain could not wait for.
var ErrDraining = errors.New("gateway: shutting down")

// gone reports whether the client went away.
func (c *call) gone() bool { return c.r.Context().Err() != nil && !c.cut() }

// bufferPool lends copy buffers to the proxy.
type bufferPool struct{ pool sync.Pool }

func newBufferPool() *bufferPool {
	return &bufferPool{sync.Pool{New: func() any { return new([32 << 10]byte) }}}
}

// Get implements httputil.BufferPool.
func (p *bufferPool) Get() []byte { return p.pool.Get().(*[32 << 10]byte)[:] }

// Put implements httputil.BufferPool.
func (p *bufferPool) Put(b []byte) { p.pool.Put((*[32 << 10]byte)(b)) }
