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
	memory *buffer // nil once closed
	rest   []byte
}

// Reused reports whether the memory of the body will be used again, so that it must be sent by Open.
func (c *Claim) Reused() bool { return c.buffer != nil }

// Open returns a reader of body, which is in the claim's memory.
func (c *Claim) Open(body []byte) *Sent {
	c.buffer.users.Add(1)
	return &Sent{memory: c.buffer, rest: body}
}

// Read implements io.Reader.
func (s *Sent) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memory == nil {
		return 0, errClosed
	}
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// WriteRest writes up to most bytes of the rest to w, without a copy between.
func (s *Sent) WriteRest(w io.Writer, most int64) (int64, error) {
	memory, part := s.take(most)
	if memory == nil {
		return 0, errClosed
	}
	defer memory.leave()
	n, err := w.Write(part)
	return int64(n), err
}

// take takes a part of the rest out, and uses the memory until the caller leaves it: writing may last, and
// must not keep Close waiting.
func (s *Sent) take(most int64) (*buffer, []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memory == nil {
		return nil, nil
	}
	s.memory.users.Add(1)
	part := s.rest[:min(int64(len(s.rest)), most)]
	s.rest = s.rest[len(part):]
	return s.memory, part
}

// Close implements io.Closer.
func (s *Sent) Close() error {
	s.mu.Lock()
	memory := s.memory
	s.memory = nil
	s.rest = nil
	s.mu.Unlock()
	if memory != nil {
		memory.leave()
	}
	return nil
}
