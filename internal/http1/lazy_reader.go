package http1

import (
	"bufio"
	"io"
	"sync"

	"github.com/llmgov/llmgov/internal/socket"
)

// A large buffer follows a read that brought as much as a small one holds.
const (
	readerBuffer = 4 << 10
	largeBuffer  = 32 << 10
)

var (
	readers      = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readerBuffer) }}
	largeReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, largeBuffer) }}
)

// lazyReader reads from a connection, and has a buffer only from when something has come until all of that was read: streams wait for long, and
// should hold no memory meanwhile.
type lazyReader struct {
	bufio.Reader
	from   *conn
	lender *bufio.Reader // whose buffer the reader has; nil if it has none
	pool   *sync.Pool    // of the lender
}

// borrow makes the reader ready to be read from.
func (r *lazyReader) borrow() {
	pool := &readers
	if r.from.much {
		pool = &largeReaders
	}
	if r.lender != nil && (r.pool == pool || r.Buffered() > 0) {
		return
	}
	r.giveBack()
	r.pool = pool
	r.lender = pool.Get().(*bufio.Reader)
	r.Reader = *r.lender
	r.Reset(r.from)
}

// giveBack gives the buffer back. What is in it is lost.
func (r *lazyReader) giveBack() {
	if r.lender != nil {
		r.pool.Put(r.lender)
		r.lender = nil
		r.Reader = bufio.Reader{}
	}
}

// wait returns once something has come, or nothing can, or at once if there is no telling. An error is left to those who read.
func (r *lazyReader) wait() {
	if r.from.arrived != nil && r.Buffered() == 0 {
		_ = r.from.raw.Read(r.from.arrived)
	}
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
