package socket

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// mostShort bounds what is read or written unknown to the scheduler: some 20 µs of copying, in which nothing else runs on the thread.
const mostShort = 32 << 10

// Conn is a connection for one reader and one writer at a time. It returns what the connection does that it is made of.
type Conn struct {
	net.Conn
	OnWait func() // runs before a write that may have to wait; nil if nobody minds

	raw syscall.RawConn // nil if everything is left to the connection
	in  transfer
	out transfer
}

// transfer is a read or a write under way.
type transfer struct {
	op   string
	left []byte // to be filled, or to be written
	done int
	err  error
	step func(fd uintptr) bool // reports false if it has to wait
}

// New returns a connection that reads and writes by the socket of another one, or by its methods where it has none.
func New(c net.Conn) *Conn {
	s := &Conn{Conn: c}
	tcp, is := inner(c).(*net.TCPConn)
	if !is || !CanRead {
		return s
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return s
	}
	s.raw = raw
	s.in = transfer{op: "read", step: s.readMore}
	s.out = transfer{op: "write", step: s.writeMore}
	return s
}

// inner is the connection within one that only counts it. Several buffers go to that by one system call.
func inner(c net.Conn) net.Conn {
	if counted, ok := c.(interface{ Inner() net.Conn }); ok {
		return counted.Inner()
	}
	return c
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	if c.raw == nil || len(p) == 0 || len(p) > mostShort {
		return c.Conn.Read(p)
	}
	c.in.left = p
	return c.end(&c.in, c.raw.Read(c.in.step))
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	if c.raw == nil || len(p) == 0 || len(p) > mostShort {
		c.mayWait()
		return c.Conn.Write(p)
	}
	c.out.left = p
	return c.end(&c.out, c.raw.Write(c.out.step))
}

// WriteAll writes several buffers, and takes out of them what has left.
func (c *Conn) WriteAll(parts *net.Buffers) (int64, error) {
	c.mayWait()
	return parts.WriteTo(inner(c.Conn))
}

func (c *Conn) mayWait() {
	if c.OnWait != nil {
		c.OnWait()
	}
}

// ReadNow reads from a file descriptor of the connection what has come, with the errors of Read. ErrNothingYet says that it would have to wait.
func (c *Conn) ReadNow(fd uintptr, p []byte) (int, error) {
	n, err := ReadNow(fd, p)
	if err == ErrNothingYet {
		return 0, err
	}
	return n, c.named("read", err)
}

// end returns what a transfer has done. waited is the error of waiting for it.
func (c *Conn) end(t *transfer, waited error) (int, error) {
	n, err := t.done, t.err
	t.left, t.done, t.err = nil, 0, nil
	if waited != nil {
		err = waited
	}
	return n, c.named(t.op, err)
}

func (c *Conn) readMore(fd uintptr) bool {
	t := &c.in
	t.done, t.err = ReadNow(fd, t.left)
	if t.err != ErrNothingYet {
		return true
	}
	t.err = nil
	return false
}

func (c *Conn) writeMore(fd uintptr) bool {
	t := &c.out
	for len(t.left) > 0 {
		n, err := writeNow(fd, t.left)
		if err == ErrNothingYet {
			c.mayWait()
			return false
		}
		if err != nil {
			t.err = err
			return true
		}
		t.done += n
		t.left = t.left[n:]
	}
	return true
}

// named is an error in the words of package net.
func (c *Conn) named(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if raw, is := err.(*net.OpError); is {
		raw.Op = op
		return raw
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError(op, err)}
}

// ErrNothingYet is the error of a read that would have to wait.
var ErrNothingYet = errors.New("socket: nothing has come yet")
