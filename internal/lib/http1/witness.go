package http1

import (
	"context"
	"net/http/httptrace"
	"time"
)

// Witness is a context that hears of its request what an httptrace.ClientTrace in it would. Such a trace takes functions and
// a context of its own for each request.
type Witness interface {
	context.Context
	GotConn(httptrace.GotConnInfo)
	WroteHeaders()
	WroteRequest(httptrace.WroteRequestInfo)
	// Waits is called by the goroutine of RoundTrip, before it waits for the answer to a request that has left, or leaves meanwhile.
	// What need not be done before that can be done now.
	Waits()
	// HeadWithin is how long the head of the answer may take once the request has left; 0 is the transport's ResponseHeaderTimeout,
	// which may not be shorter.
	HeadWithin() time.Duration
}

// witnessOf returns whoever wants to hear of a request with this context.
func witnessOf(ctx context.Context) Witness {
	if w, is := ctx.(Witness); is {
		return w
	}
	trace := httptrace.ContextClientTrace(ctx)
	if trace == nil {
		trace = &httptrace.ClientTrace{}
	}
	return &traced{ctx, trace}
}

// traced is a context with a trace.
type traced struct {
	context.Context
	trace *httptrace.ClientTrace
}

// GotConn implements Witness.
func (t *traced) GotConn(info httptrace.GotConnInfo) {
	if t.trace.GotConn != nil {
		t.trace.GotConn(info)
	}
}

// WroteHeaders implements Witness.
func (t *traced) WroteHeaders() {
	if t.trace.WroteHeaders != nil {
		t.trace.WroteHeaders()
	}
}

// WroteRequest implements Witness.
func (t *traced) WroteRequest(info httptrace.WroteRequestInfo) {
	if t.trace.WroteRequest != nil {
		t.trace.WroteRequest(info)
	}
}

// Waits implements Witness.
func (t *traced) Waits() {}

// HeadWithin implements Witness.
func (t *traced) HeadWithin() time.Duration { return 0 }

// headWithin is how long the head of the answer to a request with this context may take; 0 is any time.
func (t *Transport) headWithin(ctx context.Context) time.Duration {
	if w, is := ctx.(Witness); is && w.HeadWithin() > 0 {
		return w.HeadWithin()
	}
	return t.ResponseHeaderTimeout
}
