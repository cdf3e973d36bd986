package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
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
	ctx, cancel := context.WithCancelCause(context.WithValue(c.r.Context(), callKey{}, c))
	defer cancel(nil)
	c.interrupt = cancel
	r := c.r.WithContext(ctx)
	r.ContentLength = int64(len(c.body))
	r.Body = io.NopCloser(bytes.NewReader(c.body))
	// A connection that the upstream closed while it idled took nothing: the
	// transport may send the body again on another.
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c.body)), nil }
	c.g.proxy.ServeHTTP(&c.w, r)
}

// stripped are headers that are the gateway's business, or would let a tenant
// act on the upstream's account.
var stripped = []string{
	"Authorization", "X-Api-Key", "Api-Key", "Cookie", "Expect",
	"Openai-Organization", "Openai-Project", "X-Tenant-Id", "X-Bf-Vk",
}

// rewrite makes the upstream's request of the caller's.
func rewrite(pr *httputil.ProxyRequest) {
	c := callOf(pr.In)
	up := &c.pool.upstream
	pr.Out.URL = &url.URL{Scheme: up.base.Scheme, Host: up.base.Host, Path: up.base.Path + c.route.path, RawQuery: pr.Out.URL.RawQuery}
	pr.Out.Host = ""
	// Of a kind that the transport knows to be in memory, so that it leaves along
	// with the headers in one write. The transport may read it after the handler
	// has returned: c.body is never reused.
	pr.Out.Body = io.NopCloser(bytes.NewReader(c.body))
	h := pr.Out.Header
	for _, name := range stripped {
		delete(h, name)
	}
	for name := range h {
		if strings.HasPrefix(name, "X-Llmgov-") {
			delete(h, name)
		}
	}
	if up.bearer != "" {
		h["Authorization"] = []string{up.bearer}
	}
	h["X-Request-Id"] = []string{c.id}
	h["Accept-Encoding"] = identity // usage must be readable as it passes
}

var identity = []string{"identity"}

// errUpstreamKey is the upstream refusing the operator's key, which is no
// business of the tenant.
var errUpstreamKey = errors.New("the upstream refuses the key it was given")

// modifyResponse takes the upstream's answer over: its headers renamed, its body
// metered.
func modifyResponse(resp *http.Response) error {
	c := callOf(resp.Request)
	c.upstreamStatus = resp.StatusCode
	if resp.StatusCode == http.StatusUnauthorized {
		return errUpstreamKey
	}
	renameHeaders(resp.Header)
	if resp.StatusCode/100 != 2 {
		return nil // nothing was produced; finish settles
	}
	if isEventStream(resp.Header) {
		resp.Header.Del("Content-Length") // withholding and errors change it
		resp.ContentLength = -1
		resp.Body = streaming.NewBody(resp.Body, streaming.Options{
			WithholdUsage: c.withhold,
			Idle:          c.world.snap.Config().Timeouts.StreamIdle,
			Interrupt:     c.interrupt,
			ErrorEvent:    c.brokeOff,
			First:         c.firstDelta,
			Progress:      c.progress,
			End:           c.answered,
		})
	} else {
		resp.Body = streaming.NewWhole(resp.Body, streaming.WholeOptions{End: c.answered})
	}
	c.answer = resp.Body
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
func upstreamFailed(w http.ResponseWriter, r *http.Request, err error) {
	c := callOf(r)
	name := c.pool.upstream.name
	c.failure = err
	dial, isDial := errors.AsType[*net.OpError](err)
	timeout, isTimeout := errors.AsType[net.Error](err)
	switch {
	case c.r.Context().Err() != nil:
		c.over(telemetry.Cancelled, "", c.guess())
		c.turned = &refusal{status: statusClientClosed}
	case isDial && dial.Op == "dial":
		c.giveBack("connect")
		c.refuse(&refusal{status: http.StatusBadGateway, code: codeUpstream, message: "The upstream " + name + " cannot be reached."})
	case isTimeout && timeout.Timeout():
		c.failed("timeout", c.guess())
		c.refuse(&refusal{status: http.StatusGatewayTimeout, code: codeUpstreamLate, message: "The upstream " + name + " did not answer in time."})
	case errors.Is(err, errUpstreamKey):
		c.failed("401", noUsage)
		c.refuse(&refusal{status: http.StatusBadGateway, code: codeUpstream, message: "The upstream " + name + " refuses the gateway's key. Tell whoever runs this gateway."})
	default:
		c.failed("broken", c.guess())
		c.refuse(&refusal{status: http.StatusBadGateway, code: codeUpstream, message: "The upstream " + name + " failed before it answered."})
	}
}

// bufferPool lends copy buffers to the proxy.
type bufferPool struct{ pool sync.Pool }

func newBufferPool() *bufferPool {
	return &bufferPool{sync.Pool{New: func() any { return new([32 << 10]byte) }}}
}

// Get implements httputil.BufferPool.
func (p *bufferPool) Get() []byte { return p.pool.Get().(*[32 << 10]byte)[:] }

// Put implements httputil.BufferPool.
func (p *bufferPool) Put(b []byte) { p.pool.Put((*[32 << 10]byte)(b)) }
