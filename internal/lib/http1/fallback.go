package http1

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/internal/lib/cancel"
)

// byOther sends a request by net/http's Transport. The time for the head of the answer begins when all of the request has left. Until
// then each piece of a long body has as much time.
func (t *Transport) byOther(r *http.Request) (*http.Response, error) {
	patience := t.headWithin(r.Context())
	if patience <= 0 || patience == t.ResponseHeaderTimeout && sendsInline(r) {
		return t.Transport.RoundTrip(r)
	}
	ctx := cancel.WithCause(r.Context()) // ends with that one, because the body of the answer needs it
	w := &watch{patience: patience}
	w.timer = time.AfterFunc(math.MaxInt64, func() { ctx.Cancel(errLate) })
	trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { w.begin(patience) }}
	open := r.GetBody
	r = r.WithContext(httptrace.WithClientTrace(ctx, trace)) // a copy
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = watchedBody{r.Body, w}
	}
	if open != nil {
		r.GetBody = func() (io.ReadCloser, error) {
			body, err := open()
			return watchedBody{body, w}, err
		}
	}
	resp, err := t.Transport.RoundTrip(r)
	w.end()
	if err == nil {
		return resp, nil
	}
	if context.Cause(ctx) == errLate {
		err = errLate // of HTTP/2 the error says only that the context has ended
	}
	ctx.Cancel(nil)
	return nil, err
}

var errLate = fmt.Errorf("http1: the server reads no further, or does not answer: %w", os.ErrDeadlineExceeded)

// watch bounds how long each piece of a request may take to leave.
type watch struct {
	patience time.Duration
	timer    *time.Timer // ends the request
	over     atomic.Bool // the request is answered, or has failed
}

// begin gives the next piece its time.
func (w *watch) begin(within time.Duration) {
	w.timer.Reset(within)
	if w.over.Load() {
		w.timer.Stop()
	}
}

func (w *watch) end() {
	w.over.Store(true)
	w.timer.Stop()
}

// watchedBody is the body of a request that is watched. A transport comes for the next piece when the last one has left.
type watchedBody struct {
	io.ReadCloser
	of *watch
}

// Read implements io.Reader.
func (b watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	within := b.of.patience
	if err != nil {
		within *= 2 // the last piece may not have left yet, and then the answer has its time
	}
	b.of.begin(within)
	return n, err
}
