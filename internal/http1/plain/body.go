package plain

import (
	"io"
	"net/http"
	"sync"
)

// body is that of a request.
type body struct {
	of   *conn
	left int64 // bytes that were not read; only the goroutine of the connection reads

	mu     sync.Mutex
	closed bool // guarded by mu: the request is over
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return 0, http.ErrBodyReadAfterClose
	case b.left == 0:
		return 0, io.EOF
	}
	n, err := b.of.reader.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	switch {
	case b.left == 0:
		b.of.heard()
		return n, io.EOF
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Close implements io.Closer. What was not read is dealt with when the request is over.
func (b *body) Close() error { return nil }

// isHere reports whether all of the body was read, or can be without waiting.
func (b *body) isHere() bool { return b.left == 0 || b.left <= int64(b.of.reader.Buffered()) }

// discard skips what is here and was not read.
func (b *body) discard() {
	if b.left > 0 {
		_, _ = b.of.reader.Discard(int(b.left))
	}
}

// end lets nobody read any more.
func (b *body) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}
