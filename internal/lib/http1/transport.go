package http1

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
)

// Transport is an http.RoundTripper. Its settings are those of the net/http Transport in it, which must not change once
// it is used; of those that bound connections, only MaxIdleConnsPerHost and IdleConnTimeout are looked at.
type Transport struct {
	*http.Transport // carries what this one does not

	// NetHTTP leaves all requests to net/http's Transport, which must not change once the Transport is used.
	NetHTTP bool

	idle idle
}

// New returns a Transport with these settings, which become its own.
func New(settings *http.Transport) *Transport {
	if settings.DialContext == nil {
		settings.DialContext = new(net.Dialer).DialContext
	}
	if settings.MaxResponseHeaderBytes == 0 {
		settings.MaxResponseHeaderBytes = 1 << 20
	}
	if settings.MaxIdleConnsPerHost == 0 {
		settings.MaxIdleConnsPerHost = http.DefaultMaxIdleConnsPerHost
	}
	return &Transport{Transport: settings}
}

// WithoutKept returns a Transport with the same settings that opens a connection for each request.
func (t *Transport) WithoutKept() *Transport {
	settings := t.Clone()
	settings.DisableKeepAlives = true
	unkept := New(settings)
	unkept.NetHTTP = t.NetHTTP
	return unkept
}

// CloseIdleConnections closes the connections that are not in use, and until the next request those that come out of use.
func (t *Transport) CloseIdleConnections() {
	t.idle.closeAll()
	t.Transport.CloseIdleConnections()
}

// RoundTrip implements http.RoundTripper. Reading the request's body must not block: it has to be in memory. The answer does
// not say to which request it is, so that the stream of an answer keeps nothing of that in memory. It tells a [Witness] of its request, or
// a trace in the request's context.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.carries(r) {
		return t.byOther(r)
	}
	if t.DisableKeepAlives && !r.Close {
		r = r.WithContext(r.Context()) // a copy
		r.Close = true
	}
	for {
		c, err := t.connect(r)
		if err != nil {
			closeBody(r)
			return nil, err
		}
		x := &exchange{conn: c, of: t, ctx: r.Context()}
		resp, err := x.do(r)
		if err == nil {
			return resp, nil
		}
		r = x.again(r, err)
		if r == nil {
			return nil, err
		}
	}
}

// carries reports whether a request goes by HTTP/1.1 without TLS, straight to its host, and ends with its answer. A request
// whose host or method is none is left to net/http, which says why. Line ends in headers become spaces (Request.Write).
func (t *Transport) carries(r *http.Request) bool {
	switch {
	case t.NetHTTP, r.URL == nil || r.URL.Scheme != "http" || r.URL.Host == "" || r.Header == nil:
		return false
	case !plain(r.URL.Host) || !plain(r.Method):
		return false
	case r.Header["Upgrade"] != nil || r.Header["Expect"] != nil:
		return false
	case t.Protocols != nil && !t.Protocols.HTTP1():
		return false
	case t.Proxy == nil:
		return true
	}
	proxy, err := t.Proxy(r)
	return proxy == nil && err == nil
}

// plain reports whether a name may stand in a head as it is: it has visible characters alone, and no spaces.
func plain(name string) bool {
	return visibleIn(name) == len(name) && strings.IndexByte(name, ' ') < 0
}

// connect returns a kept connection to the request's host, or else a new one.
func (t *Transport) connect(r *http.Request) (*conn, error) {
	ctx := r.Context()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	c := t.idle.take(r.URL.Host, t.IdleConnTimeout)
	if c == nil {
		address := r.URL.Host
		if r.URL.Port() == "" {
			address = net.JoinHostPort(r.URL.Hostname(), "80")
		}
		made, err := t.DialContext(ctx, "tcp", address)
		if err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
		c = newConn(made, r.URL.Host)
	}
	witnessOf(ctx).GotConn(httptrace.GotConnInfo{Conn: c.Conn, Reused: c.reused, WasIdle: c.reused})
	return c, nil
}

// keep keeps a connection for the next request, or closes it.
func (t *Transport) keep(c *conn) {
	if !t.idle.put(c, t.MaxIdleConnsPerHost, t.IdleConnTimeout) {
		_ = c.Close()
	}
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// ErrNotSent is the error of a request of which nothing has left, because its connection was dead.
var ErrNotSent = errors.New("http1: the connection was lost before anything was sent")

var (
	errSwitches = errors.New("http1: the server switches protocols, which it was not asked to")
	errLongHead = errors.New("http1: the headers of the answer are too long")
)
