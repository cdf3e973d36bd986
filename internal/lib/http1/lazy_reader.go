package http1

import (
	"bufio"
	"io"
	"sync"

	"github.com/llmgov/llmgov/internal/lib/socket"
)

// readerBuffer holds what comes of a stream while others are served. A reader with as much room, such as the gateway has for long answers, needs
// no buffer.
const readerBuffer = 32 << 10

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readerBuffer) }}

// lazyReader reads from a connection, and has a buffer only from when something has come until all of that was read: streams wait for long, and
// should hold no memory meanwhile.
type lazyReader struct {
	bufio.Reader
	from   *conn
	lender *bufio.Reader // whose buffer the reader has; nil if it has none
}

// Read implements io.Reader. A p as large as a buffer is read into without one.
func (r *lazyReader) Read(p []byte) (int, error) {
	if len(p) >= readerBuffer && r.Buffered() == 0 {
		r.giveBack()
		return r.from.Read(p)
	}
	r.await()
	return r.Reader.Read(p)
}

// await waits until something has come, or nothing can, and makes the buffered reader ready to be read from.
func (r *lazyReader) await() {
	r.wait()
	r.borrow()
}

// borrow makes the buffered reader ready.
func (r *lazyReader) borrow() {
	if r.lender == nil {
		r.lender = readers.Get().(*bufio.Reader)
		r.Reader = *r.lender
		r.Reset(r.from)
	}
}

// giveBack gives the buffer back. What is in it is lost.
func (r *lazyReader) giveBack() {
	if r.lender != nil {
		readers.Put(r.lender)
		r.lender = nil
		r.Reader = bufio.Reader{}
	}
}

// wait returns once something has come, or nothing can, and true; or false at once if there is no telling. An error is left to those who
// read.
func (r *lazyReader) wait() bool {
	if r.Buffered() > 0 {
		return true
	}
	if r.from.arrived == nil {
		return false
	}
	_ = r.from.raw.Read(r.from.arrived)
	return true
}

// fillNow fills a buffer with bytes that have come. It reports false if none have, and the end has not either.
func (r *lazyReader) fillNow(fd uintptr) bool {
	r.borrow()
	r.from.fd = fd
	r.from.now = true
	_, err := r.Peek(1)
	r.from.now = false
	if err == socket.ErrNothingYet {
		r.giveBack()
		return false
	}
	return true
}

// readNow reads without waiting. An error of the socket is said once, so it is kept for the next Read.
func (c *conn) readNow(p []byte) (int, error) {
	n, err := c.socket.ReadNow(c.fd, p)
	if err != nil && err != socket.ErrNothingYet && err != io.EOF {
		c.failed = err
	}
	return n, err
}
