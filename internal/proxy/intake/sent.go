package intake

import (
	"errors"
	"io"
	"sync"
)

// errClosed is the error of reading a body that was closed.
var errClosed = errors.New("intake: the body is closed")

// Sent is a body on its way to an upstream. It keeps the memory of the body from being used again until it
// is closed, and nothing reads the memory after that, whoever else still holds it. An HTTP transport may
// go on reading after the call has ended.
type Sent struct {
	mu     sync.Mutex
	memory *buffer // nil if it is not used again
	rest   []byte
	more   [][]byte // behind rest
	closed bool
}

// Reused reports whether the memory of the body will be used again, so that it must be sent by Open.
func (c *Claim) Reused() bool { return c.buffer != nil }

// Open returns a reader of a body, which is in the claim's memory but for parts that nobody changes.
func (c *Claim) Open(body []byte, more ...[]byte) *Sent {
	if c.buffer != nil {
		c.buffer.users.Add(1)
	}
	return &Sent{memory: c.buffer, rest: body, more: more}
}

// Read implements io.Reader.
func (s *Sent) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, errClosed
	}
	if !s.nextLocked() {
		return 0, io.EOF
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// nextLocked reports whether there is a rest, which may be the next part.
func (s *Sent) nextLocked() bool {
	for len(s.rest) == 0 && len(s.more) > 0 {
		s.rest = s.more[0]
		s.more = s.more[1:]
	}
	return len(s.rest) > 0
}

// WriteRest writes up to most bytes of the rest to w, without a copy between.
func (s *Sent) WriteRest(w io.Writer, most int64) (written int64, err error) {
	for {
		part, memory, err := s.take(most - written)
		if err != nil {
			return written, err
		}
		n, err := w.Write(part.bytes)
		memory.leave()
		written += int64(n)
		if err != nil || part.last {
			return written, err
		}
	}
}

// taken is a part of a body, and whether it was the last, or as much as was asked for.
type taken struct {
	bytes []byte
	last  bool
}

// take takes a part of the rest out, and uses the memory until the caller leaves it: writing may last, and must not keep
// Close waiting.
func (s *Sent) take(most int64) (taken, *buffer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return taken{}, nil, errClosed
	}
	if s.memory != nil {
		s.memory.users.Add(1)
	}
	s.nextLocked()
	part := s.rest[:min(int64(len(s.rest)), most)]
	s.rest = s.rest[len(part):]
	last := int64(len(part)) == most || !s.nextLocked()
	return taken{part, last}, s.memory, nil
}

// Close implements io.Closer.
func (s *Sent) Close() error {
	s.mu.Lock()
	memory := s.memory
	s.memory = nil
	s.rest = nil
	s.more = nil
	s.closed = true
	s.mu.Unlock()
	memory.leave()
	return nil
}
