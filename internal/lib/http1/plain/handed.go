package plain

import (
	"bufio"
	"context"
	"net"
	"sync"
)

// handed is the listener of net/http's server: its connections are those whose next request is not plain.
type handed struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newHanded(addr net.Addr) *handed {
	return &handed{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (h *handed) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *handed) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr implements net.Listener.
func (h *handed) Addr() net.Addr { return h.addr }

// hand hands a connection over. It reports false if nobody takes any more.
func (h *handed) hand(c net.Conn) bool {
	select {
	case h.conns <- c:
		return true
	case <-h.closed:
		return false
	}
}

// unread is a connection of which something was read already, which is read again.
type unread struct {
	net.Conn
	first *bufio.Reader // nil once all of it was read
}

// Read implements net.Conn.
func (u *unread) Read(p []byte) (int, error) {
	if u.first == nil {
		return u.Conn.Read(p)
	}
	n, err := u.first.Read(p) // no more than it has
	if u.first.Buffered() == 0 {
		giveBack(u.first)
		u.first = nil
	}
	return n, err
}

// CloseWrite lets net/http end its side before it closes a connection with unread data.
func (u *unread) CloseWrite() error { return closeWrite(u.Conn) }

// ofAccepted lets a function for http.Server.ConnContext see the connection as it was accepted.
func ofAccepted(f func(context.Context, net.Conn) context.Context) func(context.Context, net.Conn) context.Context {
	return func(ctx context.Context, c net.Conn) context.Context {
		if u, ok := c.(*unread); ok {
			c = u.Conn
		}
		return f(ctx, c)
	}
}
