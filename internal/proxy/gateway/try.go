package gateway

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/internal/lib/cancel"
	"github.com/llmgov/llmgov/internal/lib/encoded"
	"github.com/llmgov/llmgov/internal/lib/form"
	"github.com/llmgov/llmgov/internal/lib/http1"
	"github.com/llmgov/llmgov/internal/ops/tracing"
	"github.com/llmgov/llmgov/internal/proxy/answers"
	"github.com/llmgov/llmgov/internal/proxy/gateway/stored"
	"github.com/llmgov/llmgov/internal/proxy/gateway/upstream"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
	"github.com/llmgov/llmgov/internal/run/admission"
)

// try is a call on its way to one upstream. Most calls have one.
type try struct {
	admission.Try
	up     *upstream.Upstream
	member *upstreams.Member // the same, in its pool,
	index  int               // where it has this place
	model  string            // the upstream's name of it
	scope  upstreams.Scope   // what a pause is of
	probe  bool              // to be told to the upstream's breaker
	told   bool              // its outcome was told to the pool
	// without are the additions that the body goes without, and amended those of them that the upstream has refused just before.
	without, amended upstreams.Addition
	span             *tracing.Try

	url        url.URL
	sentSignal sentSignal
	within     time.Duration // for the head of the answer
	reused     bool          // the connection is kept from an earlier call
	bodySent   atomic.Bool   // the upstream has got all of it
	reader     bytes.Reader  // of the body
	form       *form.Encoded // that the body is, if it is one
	status     int
	busy       bool // the answer says to come back later,
	whole      bool // with all calls of the pool
	leaked     bool // the answer is an error that contains the upstream's key,
	denied     bool // or says that it is not valid,
	account    bool // or says that the upstream serves no call of this account
	noAnswer   bool // to what was asked: a page, say, in place of JSON
	cut        bool // the connection was lost before anything of an answer could reach the client
}

// leave ends the try for its upstream, which counts the calls in flight there.
func (t *try) leave() {
	if t.member != nil {
		t.member.Leave()
		t.member = nil
	}
}

// sentSignal is a context by which transports note how far a try has got: an [http1.Witness], and for others one with a trace. It
// keeps the room that the context of all tries has for a function.
type sentSignal struct {
	*cancel.Context
	try    *try
	waits  func() // of the call, while it lasts
	once   sync.Once
	traced context.Context // the same for whoever asks for values
}

var _ http1.Witness = (*sentSignal)(nil)

func (w *sentSignal) Value(key any) any {
	w.once.Do(func() {
		trace := &httptrace.ClientTrace{GotConn: w.GotConn, WroteHeaders: w.WroteHeaders, WroteRequest: w.WroteRequest}
		w.traced = httptrace.WithClientTrace(w.Context, trace)
	})
	return w.traced.Value(key)
}

// GotConn implements http1.Witness.
func (w *sentSignal) GotConn(info httptrace.GotConnInfo) { w.try.reused = info.Reused }

// WroteHeaders implements http1.Witness.
func (w *sentSignal) WroteHeaders() { w.try.Sent.Store(true) }

// WroteRequest implements http1.Witness.
func (w *sentSignal) WroteRequest(info httptrace.WroteRequestInfo) {
	w.try.bodySent.Store(info.Err == nil)
}

// Waits implements http1.Witness.
func (w *sentSignal) Waits() { w.waits() }

// HeadWithin implements http1.Witness.
func (w *sentSignal) HeadWithin() time.Duration { return w.try.within }

var (
	// errUpstreamKey is the upstream refusing the operator's key, which is no
	// business of the tenant.
	errUpstreamKey = errors.New("the upstream refuses the key it was given")
	// errCut is the connection being lost before anything of the answer could reach the client.
	errCut = errors.New("the upstream broke off its answer")
	// errRedirected is the upstream sending the caller elsewhere, which is not followed either.
	errRedirected = errors.New("the upstream redirects to another address")
)

// withheld returns why an answer is not passed on, or nil if it may be.
func (t *try) withheld(resp *http.Response) error {
	status := resp.StatusCode
	switch {
	case t.cut:
		return errCut
	case isEncoded(resp.Header):
		return stored.ErrUnreadable
	case t.refusesKey(status):
		return errUpstreamKey
	case answers.Redirects(status):
		return errRedirected
	case t.noAnswer, !answers.Passes(status):
		return stored.ErrUnreadable
	}
	return nil
}

// isEncoded reports whether an answer is compressed or the like in a way that is not known: its usage could not be read, nor how large it
// becomes at the client.
func isEncoded(h http.Header) bool {
	encoding, _ := encoded.Of(h["Content-Encoding"])
	return encoding != ""
}

// refusesKey reports whether an answer is about the operator's key or proxy, and not about the call.
func (t *try) refusesKey(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusProxyAuthRequired:
		return true
	case http.StatusForbidden:
		return t.leaked || t.denied
	}
	return t.denied
}

// classConnect is the class of upstreams that were not reached.
const classConnect = "connect"

// classOf names the outcome of a try whose answer is not passed on.
func (t *try) classOf(err error) string {
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, stored.ErrUnreadable), t.noAnswer, t.status != 0 && !answers.Passes(t.status) && !answers.Redirects(t.status):
		return "unreadable"
	case t.account:
		return admission.ReasonAccount
	case t.status != 0 && t.status/100 != 2:
		return strconv.Itoa(t.status)
	case !t.Sent.Load():
		return classConnect
	case ok && timeout.Timeout():
		return admission.ReasonTimeout
	}
	return admission.ReasonBroken
}

// overloads reports whether the outcome of a try says that the upstream has more to do than it can.
// If no other upstream is ready, an adaptive limit on calls at once is then too high.
func (t *try) overloads() bool {
	return t.busy && t.whole || t.status != http.StatusTooManyRequests && admission.Overloads(t.status)
}
