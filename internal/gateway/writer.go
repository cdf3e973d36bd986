package gateway

import (
	"net/http"
	"sync"
	"time"

	"github.com/llmgov/llmgov/internal/rateheaders"
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

// queued tells the caller how long it waited.
func (w *writer) queued(d time.Duration) {
	rateheaders.Queued(w.Header(), d)
}
