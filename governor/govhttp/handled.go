package govhttp

import (
	"io"
	"net/http"
	"sync"
)

// handled lets a handler answer a request as a server behind a RoundTripper would. It serves one request at a
// time, in a goroutine that wait waits for.
type handled struct {
	handler  http.Handler
	done     chan struct{} // closed when the handler has returned; nil before it began
	panicked any           // guarded by done
}

func (h *handled) roundTrip(r *http.Request) (*http.Response, error) {
	if h.done != nil {
		<-h.done // it is asked once more, after an answer that was closed
	}
	read, write := io.Pipe()
	w := &pipeWriter{pipe: write, header: http.Header{}, begun: make(chan struct{})}
	h.done = make(chan struct{})
	go func() {
		defer close(h.done)
		defer func() {
			h.panicked = recover()
			w.end(h.panicked != nil)
		}()
		h.handler.ServeHTTP(w, r)
	}()
	<-w.begun
	if w.status == 0 {
		return nil, http.ErrAbortHandler
	}
	return &http.Response{StatusCode: w.status, Header: w.sent, Body: read, ContentLength: -1, Request: r}, nil
}

// wait waits until the handler has returned, and panics as it did.
func (h *handled) wait() {
	if h.done == nil {
		return
	}
	<-h.done
	if h.panicked != nil {
		panic(h.panicked)
	}
}

// pipeWriter is the http.ResponseWriter of a handled request.
type pipeWriter struct {
	pipe   *io.PipeWriter
	header http.Header

	once   sync.Once
	begun  chan struct{} // closed when the head of the answer is there, or never will be
	status int           // guarded by begun; 0 is no answer
	sent   http.Header   // guarded by begun
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(status int) {
	if status < 200 {
		return
	}
	w.once.Do(func() {
		w.status = status
		w.sent = w.header.Clone()
		close(w.begun)
	})
}

func (w *pipeWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pipe.Write(p)
}

// Flush implements http.Flusher: whatever is written is read at once.
func (w *pipeWriter) Flush() { w.WriteHeader(http.StatusOK) }

// end ends the answer. One that broke off before its head is none.
func (w *pipeWriter) end(broke bool) {
	if broke {
		_ = w.pipe.CloseWithError(io.ErrUnexpectedEOF)
		w.once.Do(func() { close(w.begun) })
		return
	}
	w.WriteHeader(http.StatusOK)
	_ = w.pipe.Close()
}
