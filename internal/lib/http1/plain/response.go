package plain

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// response is the http.ResponseWriter of a plain request. It writes what net/http's does, but no trailers and no interim answers.
type response struct {
	of      *conn
	request *body
	header  http.Header

	status  int
	dated   bool    // the handler says when, or that nobody is to
	typed   bool    // it says what the body is
	begun   bool    // the head has ended
	length  int64   // of the body; -1 while nobody knows
	written int64   // of that
	held    *output // the body so far, before it has begun; nil if there is none
	out     *output // what has not left yet; nil if there is nothing
	failed  error   // why nothing can be written any more
}

var errOver = errors.New("plain: the request is over")

// output is what leaves together.
type output struct{ bytes []byte }

const (
	outputSize = 8 << 10
	// largeOutput has room for a long chunk with its lines, behind a head.
	largeOutput = 40 << 10
	// linesOfChunk bounds the lines before and behind a chunk.
	linesOfChunk = len("7fffffffffffffff\r\n\r\n")
	// mostHeld bounds the bodies whose length is found although the handler does not tell it, as in net/http.
	mostHeld = 2 << 10
)

var (
	outputs      = sync.Pool{New: func() any { return &output{bytes: make([]byte, 0, outputSize)} }}
	largeOutputs = sync.Pool{New: func() any { return &output{bytes: make([]byte, 0, largeOutput)} }}
)

// recycle lets an output be used again.
func (o *output) recycle() {
	size := cap(o.bytes)
	o.bytes = o.bytes[:0]
	switch size {
	case outputSize:
		outputs.Put(o)
	case largeOutput:
		largeOutputs.Put(o)
	}
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(status int) {
	if w.status != 0 || status < 200 {
		return
	}
	w.status = status
	if told := w.header["Content-Length"]; len(told) == 1 {
		length, err := strconv.ParseInt(told[0], 10, 64)
		if err == nil && length >= 0 {
			w.length = length
		}
	}
	if !w.hasBody() {
		w.length = 0
	}
	w.beginHead()
}

// hasBody reports whether answers with this status have bodies.
func (w *response) hasBody() bool {
	return w.status != http.StatusNoContent && w.status != http.StatusNotModified
}

// Write implements http.ResponseWriter.
func (w *response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case w.failed != nil:
		return 0, w.failed
	case len(p) == 0:
		return 0, nil
	case !w.hasBody():
		return 0, http.ErrBodyNotAllowed
	case w.length >= 0 && w.written+int64(len(p)) > w.length:
		return 0, http.ErrContentLength
	}
	w.written += int64(len(p))
	if w.length < 0 && !w.begun && w.written <= mostHeld {
		if w.held == nil {
			w.held = outputs.Get().(*output)
		}
		w.held.bytes = append(w.held.bytes, p...)
		return len(p), nil
	}
	if !w.begun {
		w.begin(p)
	}
	return len(p), w.body(p)
}

// begin ends the head, and writes behind it what is held. Without that the body begins with next.
func (w *response) begin(next []byte) {
	w.begun = true
	if w.held == nil {
		w.endHead(next)
		return
	}
	held := w.held
	w.held = nil
	w.endHead(held.bytes)
	_ = w.body(held.bytes) // the error is kept
	held.recycle()
}

// gather returns where the output is gathered.
func (w *response) gather() *output {
	if w.out == nil {
		w.out = outputs.Get().(*output)
	}
	return w.out
}

// chunked reports whether the body goes in chunks.
func (w *response) chunked() bool { return w.length < 0 }

// body writes a part of the body. A short one is only gathered.
func (w *response) body(p []byte) error {
	if w.chunked() {
		return w.chunk(p)
	}
	out := w.gather()
	if len(out.bytes)+len(p) > outputSize {
		return w.flushWith(p)
	}
	out.bytes = append(out.bytes, p...)
	return nil
}

// chunk writes a part of the body as a chunk. A long one is gathered, too, because the kernel takes longer for three parts.
func (w *response) chunk(p []byte) error {
	out, err := w.roomFor(len(p) + linesOfChunk)
	if err != nil {
		return err
	}
	out.bytes = strconv.AppendInt(out.bytes, int64(len(p)), 16)
	out.bytes = append(out.bytes, lineEnd...)
	if len(p)+len(lineEnd) > cap(out.bytes)-len(out.bytes) {
		return w.flushWith(p, lineEnd)
	}
	out.bytes = append(out.bytes, p...)
	out.bytes = append(out.bytes, lineEnd...)
	return nil
}

// roomFor returns the output, which has room for so many bytes more if they fit into any. Few bytes do not make it a large one: what
// is before them leaves.
func (w *response) roomFor(n int) (*output, error) {
	out := w.gather()
	size := len(out.bytes) + n
	switch {
	case size <= outputSize:
	case n <= outputSize:
		err := w.flushOut()
		return w.gather(), err
	case cap(out.bytes) < size && size <= largeOutput:
		w.out = largeOutputs.Get().(*output)
		w.out.bytes = append(w.out.bytes, out.bytes...)
		out.recycle()
	}
	return w.out, nil
}

// flushWith writes what is gathered, and behind it parts of the body without a copy.
func (w *response) flushWith(parts ...[]byte) error {
	if len(w.out.bytes) == 0 && len(parts) == 1 {
		_, err := w.of.socket.Write(parts[0])
		return w.flushed(err)
	}
	all := append(net.Buffers{w.out.bytes}, parts...)
	_, err := w.of.socket.WriteAll(&all)
	return w.flushed(err)
}

// FlushError is found by http.ResponseController.
func (w *response) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.failed != nil {
		return w.failed
	}
	if !w.begun {
		w.begin(nil)
	}
	if w.out == nil {
		return w.failed
	}
	return w.flushOut()
}

// flushOut writes what is gathered.
func (w *response) flushOut() error {
	_, err := w.of.socket.Write(w.out.bytes)
	return w.flushed(err)
}

// Flush implements http.Flusher.
func (w *response) Flush() { _ = w.FlushError() }

// flushed gives the output back. When nothing can be written any more, the request ends, as in net/http.
func (w *response) flushed(err error) error {
	if err != nil {
		w.of.watch.ctx.Cancel(context.Canceled)
	}
	w.out.recycle()
	w.out = nil
	w.failed = err
	return err
}

// SetReadDeadline is found by http.ResponseController. Nobody waits for a body that is here.
func (w *response) SetReadDeadline(t time.Time) error {
	if w.request.isHere() {
		return nil
	}
	return w.of.SetReadDeadline(t)
}

// SetWriteDeadline is found by http.ResponseController.
func (w *response) SetWriteDeadline(t time.Time) error {
	w.of.writesUntil = t
	return w.of.SetWriteDeadline(t)
}

// WriteDeadline is the last one that was set, for this request or one before it on the connection.
func (w *response) WriteDeadline() time.Time { return w.of.writesUntil }

// finish ends the answer. One that is shorter than it said ends the connection.
func (w *response) finish() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.begun && w.length < 0 {
		w.length = w.written // and no more
	}
	if !w.begun && w.failed == nil {
		w.begin(nil)
	}
	if w.chunked() && w.failed == nil {
		out := w.gather()
		out.bytes = append(out.bytes, "0\r\n\r\n"...)
	}
	err := w.FlushError()
	w.failed = errOver
	if w.written < w.length {
		w.of.last = true
	}
	return err
}
