// Package pipenet is a network of one address, in memory. A server and its clients run over it
// inside a testing/synctest bubble, which real sockets would keep from ever being idle.
package pipenet

import (
	"context"
	"net"
	"sync"
)

// Listener is a net.Listener to which Dial connects.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Listen returns a Listener. Make it inside the bubble in which it is used.
func Listen() *Listener {
	return &Listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects to the listener, whatever the network and the address. It fits
// http.Transport.DialContext.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept returns the server's end of the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and Dial. It may be called more than once.
func (l *Listener) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

// Addr is a name that is no address of a real network.
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }
