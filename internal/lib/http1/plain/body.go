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
		b.of.watch.noteCome()
		return n, io.EOF
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Close implements io.Closer. What was not read is dealt with when the answer begins.
func (b *body) Close() error { return nil }

// isHere reports whether all of the body was read, or can be without waiting.
func (b *body) isHere() bool { return b.left == 0 || b.left <= int64(b.of.reader.Buffered()) }

// mostDrained is how much of a body is read that its handler leaves, as in net/http: a client that is still sending when the connection
// ends may never see its answer.
const mostDrained = 256 << 10

// drain reads what the handler has left of the body, if that is not much. It reports whether nothing is left. The handler cannot read
// any more then: it would take the end for that of a shorter body.
func (b *body) drain() bool {
	if 0 < b.left && b.left <= mostDrained {
		_, _ = io.Copy(io.Discard, b)
		b.end()
	}
	return b.left == 0
}

// end lets nobody read any more.
func (b *body) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}
