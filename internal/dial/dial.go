// Package dial opens connections to upstreams on which a body that is in memory leaves in one write.
//
// net/http copies a body through a buffer of 32 KB, which it allocates for each request, and writes it
// piece by piece: a prompt of 400 KB is copied once more and takes a dozen system calls. But it asks a
// connection first whether that can read from the body itself (io.ReaderFrom). So [Conn] does, and lets the
// body write itself. Before that it writes the head alone, because it does not know that such a body is in memory:
// [Conn.HoldHead] lets the head leave along with the body. Connections with TLS or HTTP/2 do not ask; there all is
// as it was.
package dial

import (
	"context"
	"io"
	"net"
)

// Body is a request's body in memory, which can write itself.
type Body interface {
	// WriteRest writes up to most bytes of what was not read yet.
	WriteRest(w io.Writer, most int64) (int64, error)
}

// Conn is a connection that lets bodies write themselves. One goroutine at a time may write to it.
type Conn struct {
	net.Conn
	holds bool   // the next write is a head
	head  []byte // that is held back
}

// Context dials like d.
func Context(d *net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &Conn{Conn: conn}, nil
	}
}

// HoldHead keeps the head that is written next until its body follows by ReadFrom. Call it when the head is
// complete, for a request whose body is a [Body].
func (c *Conn) HoldHead() { c.holds = true }

// HoldsHead reports whether a head is held back still. If writing its body has failed, then nothing of the request has left.
func (c *Conn) HoldsHead() bool { return len(c.head) > 0 }

// Write implements io.Writer.
func (c *Conn) Write(p []byte) (int, error) {
	if c.holds {
		c.holds = false
		c.head = append(c.head[:0], p...)
		return len(p), nil
	}
	return behindHead{c}.Write(p)
}

// ReadFrom implements io.ReaderFrom.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) {
	c.holds = false
	limited, ok := r.(*io.LimitedReader) // which net/http puts around a body of known length
	if ok {
		if body, ok := limited.R.(Body); ok {
			n, err := body.WriteRest(behindHead{c}, limited.N)
			limited.N -= n
			return n, err
		}
	}
	return io.Copy(behindHead{c}, r)
}

// behindHead writes to a connection, along with the head if one is held.
type behindHead struct{ to *Conn }

// Write implements io.Writer. The result counts nothing of the head, which counted when it was held.
func (b behindHead) Write(p []byte) (int, error) {
	c := b.to
	if len(c.head) == 0 {
		return c.Conn.Write(p)
	}
	head := int64(len(c.head))
	parts := net.Buffers{c.head, p}
	n, err := parts.WriteTo(c.Conn)
	if n > 0 {
		c.head = c.head[:0]
	}
	return int(max(0, n-head)), err
}
