package plain

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// Server is net/http's server, which serves what is not plain. Its settings must not change once it serves.
type Server struct {
	*http.Server

	closing atomic.Bool // set under mu

	mu    sync.Mutex
	conns map[*conn]struct{} // guarded by mu: those that net/http's server does not have
	none  chan struct{}      // closed once there are none and there will be none
}

// New returns a server with these settings, which become its own.
func New(settings *http.Server) *Server {
	context := settings.ConnContext
	if context != nil {
		settings.ConnContext = ofAccepted(context)
	}
	return &Server{Server: settings, conns: map[*conn]struct{}{}, none: make(chan struct{})}
}

// Serve serves the connections of a listener, like http.Server.Serve.
func (s *Server) Serve(l net.Listener) error {
	others := newHanded(l.Addr())
	go func() { _ = s.Server.Serve(others) }() // ends with the server, or with the listener below
	defer others.Close()
	return s.Server.Serve(&plainly{Listener: l, of: s, others: others})
}

// plainly is a listener whose connections are served by a Server. It accepts none, so that net/http sees only its errors.
type plainly struct {
	net.Listener
	of     *Server
	others *handed
}

// Accept implements net.Listener. It returns with an error.
func (p *plainly) Accept() (net.Conn, error) {
	for {
		accepted, err := p.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := newConn(accepted, p.of, p.others)
		if p.of.add(c) {
			go c.serve() // ends with the connection
		} else {
			_ = accepted.Close()
		}
	}
}

func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.tellNone()
}

// tellNone tells those who wait, once, that no connection is left.
func (s *Server) tellNone() {
	if s.closing.Load() && len(s.conns) == 0 {
		select {
		case <-s.none:
		default:
			close(s.none)
		}
	}
}

// Shutdown is http.Server.Shutdown: it closes the listeners and all idle connections, and waits for the others until the context ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.close((*conn).closeIdle)
	err := s.Server.Shutdown(ctx)
	select {
	case <-s.none:
		return err
	case <-ctx.Done():
		return errors.Join(err, ctx.Err())
	}
}

// Close is http.Server.Close: it closes the listeners and all connections.
func (s *Server) Close() error {
	s.close(func(c *conn) { _ = c.Conn.Close() })
	return s.Server.Close()
}

func (s *Server) close(each func(*conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing.Store(true)
	for c := range s.conns {
		each(c)
	}
	s.tellNone()
}
