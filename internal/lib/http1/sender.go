package http1

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/llmgov/llmgov/internal/lib/socket"
)

// Body is a request's body in memory, which can write itself.
type Body interface {
	// WriteRest writes up to most bytes of what was not read yet.
	WriteRest(w io.Writer, most int64) (int64, error)
}

// sender writes one request to a connection. It gathers small pieces, and lets a [Body] write itself along with the
// head before it: in one system call, and without a copy.
type sender struct {
	to       *socket.Conn
	patience time.Duration // for as long as nothing leaves; 0 has no end
	buf      []byte        // bytes that have not left
	sent     int64
	broken   error // of writing to the connection
}

// senderBuffer holds a head, and a short body behind it.
const senderBuffer = 8 << 10

var senders = sync.Pool{New: func() any { return &sender{buf: make([]byte, 0, senderBuffer)} }}

func newSender(to *socket.Conn) *sender {
	s := senders.Get().(*sender)
	s.to = to
	return s
}

// release gives the sender back.
func (s *sender) release() {
	*s = sender{buf: s.buf[:0]}
	if cap(s.buf) == senderBuffer {
		senders.Put(s)
	}
}

// Write implements io.Writer.
func (s *sender) Write(p []byte) (int, error) {
	s.buf = append(s.buf, p...)
	return len(p), s.flushFrom(senderBuffer / 2)
}

// WriteString implements io.StringWriter.
func (s *sender) WriteString(p string) (int, error) {
	s.buf = append(s.buf, p...)
	return len(p), s.flushFrom(senderBuffer / 2)
}

// WriteByte implements io.ByteWriter, by which net/http recognizes a writer that has a buffer.
func (s *sender) WriteByte(b byte) error {
	s.buf = append(s.buf, b)
	return s.flushFrom(senderBuffer / 2)
}

// flushFrom writes the bytes that were gathered, if there are at least so many.
func (s *sender) flushFrom(least int) error {
	if len(s.buf) < least {
		return nil
	}
	_, err := gathered{s}.Write(nil)
	return err
}

// ReadFrom implements io.ReaderFrom.
func (s *sender) ReadFrom(r io.Reader) (int64, error) {
	limited, ok := r.(*io.LimitedReader) // which net/http puts around a body of known length
	if ok {
		if body, ok := limited.R.(Body); ok {
			n, err := body.WriteRest(gathered{s}, limited.N)
			limited.N -= n
			return n, err
		}
	}
	var all int64
	for {
		n, err := r.Read(s.buf[len(s.buf):cap(s.buf)])
		s.buf = s.buf[:len(s.buf)+n]
		all += int64(n)
		if err == io.EOF {
			return all, s.flushFrom(1)
		}
		if err == nil {
			err = s.flushFrom(cap(s.buf))
		}
		if err != nil {
			return all, err
		}
	}
}

// gathered writes to the connection, behind the bytes that were gathered before.
type gathered struct{ s *sender }

// Write implements io.Writer. The result counts nothing of the gathered bytes, which counted when they came.
func (g gathered) Write(p []byte) (int, error) {
	s := g.s
	head := int64(len(s.buf))
	n, err := s.write(p)
	s.buf = s.buf[:0]
	s.sent += n
	if err != nil {
		if s.sent == 0 {
			err = fmt.Errorf("%w: %w", ErrNotSent, err)
		}
		s.broken = err
	}
	return int(max(0, n-head)), err
}

// write writes the gathered bytes and p, if possible by one system call. A short p is copied behind them, because the kernel
// takes longer for two parts.
func (s *sender) write(p []byte) (int64, error) {
	if len(p) <= cap(s.buf)-len(s.buf) {
		s.buf = append(s.buf, p...)
		p = nil
	}
	switch {
	case s.patience > 0:
		return s.writePatiently(net.Buffers{s.buf, p})
	case p == nil:
		n, err := s.to.Write(s.buf)
		return int64(n), err
	}
	return s.to.WriteAll(&net.Buffers{s.buf, p})
}

// looks is how often writePatiently looks in the time of its patience whether anything has left.
const looks = 4

// writePatiently writes for as long as something leaves. A server that reads slowly takes all of its time, and one that has
// stopped no more than the patience and one look.
func (s *sender) writePatiently(parts net.Buffers) (int64, error) {
	sent := int64(0)
	idle := 0
	for {
		_ = s.to.SetWriteDeadline(time.Now().Add(s.patience / looks))
		n, err := s.to.WriteAll(&parts)
		sent += n
		idle++
		if n > 0 {
			idle = 0
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || idle == looks {
			return sent, err
		}
	}
}
