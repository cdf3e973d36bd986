// Package dial opens connections to upstreams on which a body that is in memory leaves in one write.
//
// net/http copies a body through a buffer of 32 KB, which it allocates for each request, and writes it
// piece by piece: a prompt of 400 KB is copied once more and takes a dozen system calls. But it asks a
// connection first whether that can read from the body itself (io.ReaderFrom). So [Conn] does, and lets the
// body write itself. Connections with TLS or HTTP/2 do not ask; there all is as it was.
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

// Conn is a connection that lets bodies write themselves.
type Conn struct{ net.Conn }

// Context dials like d.
func Context(d *net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &Conn{conn}, nil
	}
}

// ReadFrom implements io.ReaderFrom.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) {
	limited, ok := r.(*io.LimitedReader) // which net/http puts around a body of known length
	if ok {
		if body, ok := limited.R.(Body); ok {
			n, err := body.WriteRest(c.Conn, limited.N)
			limited.N -= n
			return n, err
		}
	}
	return io.Copy(c.Conn, r)
}
