package relay

import (
	"net/http"
	"sync"
	"time"
)

// Writer is the client's side of a call: it remembers the status, and bounds how long a client that
// reads nothing can hold a lease.
type Writer struct {
	http.ResponseWriter
	Control  http.ResponseController // of the ResponseWriter
	Status   int                     // of the answer; 0 before there is one
	patience time.Duration
	written  time.Time // when the last piece was; for the goroutine that writes

	mu       sync.Mutex // held while something is written
	begun    bool       // guarded by mu: the body has begun, or the call is over
	deadline time.Time  // guarded by mu
}

// Reset begins with another client, which may read nothing for as long as patience lasts.
func (w *Writer) Reset(rw http.ResponseWriter, patience time.Duration) {
	*w = Writer{ResponseWriter: rw, Control: *http.NewResponseController(rw), patience: patience}
	if known, ok := rw.(interface{ WriteDeadline() time.Time }); ok { // of the connection, by an earlier call
		w.deadline = known.WriteDeadline()
	}
}

// Hurry leaves the client at most so much time to read on.
func (w *Writer) Hurry(most time.Duration) { w.patience = min(w.patience, most) }

// Unwrap lets http.ResponseController reach the connection.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *Writer) WriteHeader(status int) {
	if w.Status == 0 && status >= 200 {
		w.Status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *Writer) Write(p []byte) (int, error) {
	if w.Status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = true
	w.written = time.Now()
	w.extend(w.written)
	return w.ResponseWriter.Write(p)
}

// pass writes a piece of an answer; now says that the piece is to reach the client at once.
func (w *Writer) pass(p []byte, now bool) error {
	if _, err := w.Write(p); err != nil || !now {
		return err
	}
	return w.Control.Flush()
}

// Begin sends the head of an answer whose body is slow to come. Any goroutine may call it, even
// after the call is over.
func (w *Writer) Begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.begun {
		w.extend(time.Now())
		_ = w.Control.Flush()
	}
}

// End lets nothing begin any more, and leaves net/http time for its last flush.
func (w *Writer) End(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = true
	w.extend(now)
}

// extend moves the write deadline: not with each chunk, but when a quarter of the patience has
// passed. There is always more than a whole patience left, because over HTTP/2 a deadline resets
// the stream even if nobody is writing. Nor is there more than one and a half, which an earlier call may have left.
func (w *Writer) extend(now time.Time) {
	left := w.deadline.Sub(now)
	if left < w.patience+w.patience/4 || left > w.patience+w.patience/2 {
		w.deadline = now.Add(w.patience + w.patience/2)
		_ = w.Control.SetWriteDeadline(w.deadline)
	}
}
