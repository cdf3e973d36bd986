package http1

import (
	"errors"
	"math"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/llmgov/llmgov/internal/lib/socket"
)

// conn is a connection to a server, for one request at a time.
type conn struct {
	net.Conn
	host   string // as URLs name it
	hangUp func() // closes it
	reused bool
	since  time.Time // when it became idle

	socket  *socket.Conn
	raw     syscall.RawConn       // nil if it is no socket
	probe   func(fd uintptr) bool // for quiet
	arrived func(fd uintptr) bool // fills the reader; nil if the connection may read otherwise than from its socket
	found   error                 // by the last probe

	reader   lazyReader
	headLeft int64   // bytes that may be read of a head; math.MaxInt64 beyond
	now      bool    // Read is not to wait
	fd       uintptr // for that
	failed   error   // with which a read without waiting ended
}

func newConn(made net.Conn, host string) *conn {
	c := &conn{Conn: made, socket: socket.New(made), host: host, headLeft: math.MaxInt64}
	c.hangUp = func() { _ = c.Close() }
	c.reader.from = c
	has, ok := made.(syscall.Conn)
	if !ok || !socket.CanRead {
		return c
	}
	raw, err := has.SyscallConn()
	if err == nil {
		c.raw = raw
		c.probe = func(fd uintptr) bool {
			var one [1]byte
			_, c.found = socket.ReadNow(fd, one[:])
			return true
		}
	}
	if _, plain := made.(*net.TCPConn); plain && err == nil {
		c.arrived = c.reader.fillNow
	}
	return c
}

// quiet reports whether the connection is there still, and nothing has come on it. It does not wait.
func (c *conn) quiet() bool {
	if c.raw != nil {
		return c.raw.Read(c.probe) == nil && c.found == socket.ErrNothingYet
	}
	// Of a pipe it shows whether it was closed; of other connections nothing, on systems without a probe.
	_ = c.SetReadDeadline(time.Unix(1, 0))
	_, err := c.Conn.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded) && c.SetReadDeadline(time.Time{}) == nil
}

// Read implements io.Reader.
func (c *conn) Read(p []byte) (int, error) {
	if c.headLeft == math.MaxInt64 {
		return c.read(p)
	}
	if c.headLeft <= 0 {
		return 0, errLongHead
	}
	n, err := c.read(p[:min(int64(len(p)), c.headLeft)])
	c.headLeft -= int64(n)
	return n, err
}

func (c *conn) read(p []byte) (int, error) {
	switch {
	case c.failed != nil:
		return 0, c.failed
	case c.now:
		return c.readNow(p)
	}
	return c.socket.Read(p)
}
