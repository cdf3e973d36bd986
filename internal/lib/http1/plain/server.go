package plain

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Server is net/http's server, which serves what is not plain. Its settings must not change once it serves.
type Server struct {
	*http.Server

	closing atomic.Bool // set under mu

	mu     sync.Mutex
	conns  map[*conn]struct{} // guarded by mu: those that net/http's server does not have
	handed int                // guarded by mu: the number of those that it has, or is about to have
	cut    chan struct{}      // closed by Close
	none   chan struct{}      // closed once there are none and there will be none
}

// New returns a server with these settings, which become its own.
func New(settings *http.Server) *Server {
	context := settings.ConnContext
	if context != nil {
		settings.ConnContext = ofAccepted(context)
	}
	s := &Server{Server: settings, conns: map[*conn]struct{}{}, cut: make(chan struct{}), none: make(chan struct{})}
	changed := settings.ConnState
	settings.ConnState = func(c net.Conn, now http.ConnState) {
		if changed != nil {
			changed(c, now)
		}
		if now == http.StateClosed || now == http.StateHijacked {
			s.noteLeft(c)
		}
	}
	return s
}

// Serve serves the connections of a listener, like http.Server.Serve.
func (s *Server) Serve(l net.Listener) error {
	others := newHanded(l.Addr())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Server.Serve(others)
	}()
	defer func() {
		_ = others.Close()
		<-ended
	}()
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

// hand hands a connection to net/http's server, or closes it if that takes none any more.
func (s *Server) hand(c *unread, to *handed) {
	s.mu.Lock()
	s.handed++
	s.mu.Unlock()
	if !to.hand(c) {
		_ = c.Close()
		s.noteLeft(c)
	}
}

// noteLeft notes that net/http's server has a connection no more: it has ended, or belongs to a handler.
func (s *Server) noteLeft(c net.Conn) {
	if _, handed := c.(*unread); !handed {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handed--
	s.tellNone()
}

// tellNone tells those who wait, once, that no connection is left.
func (s *Server) tellNone() {
	if s.closing.Load() && len(s.conns) == 0 && s.handed == 0 {
		closeOnce(s.none)
	}
}

// closeOnce closes a channel if it is open. Its callers hold a lock.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// Shutdown is http.Server.Shutdown: it closes the listeners and all idle connections, and waits for the others, lingering ones too,
// until the context ends.
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

// endsWithin is how long Close waits for handlers, and for net/http's server, which lets a client linger for half a second.
const endsWithin = time.Second

// Close is http.Server.Close: it closes the listeners and all connections. It also waits until nothing of them runs, but not for handlers
// that go on without their clients for long: Shutdown waits for those.
func (s *Server) Close() error {
	s.mu.Lock()
	closeOnce(s.cut)
	s.mu.Unlock()
	s.close(func(c *conn) { _ = c.Conn.Close() })
	err := s.Server.Close()
	late := time.NewTimer(endsWithin)
	defer late.Stop()
	select {
	case <-s.none:
	case <-late.C:
	}
	return err
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
