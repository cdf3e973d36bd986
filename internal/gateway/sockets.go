package gateway

import (
	"context"
	"sync"
)

// sockets are the open realtime sessions. net/http does not wait for them, nor tell them of a
// shutdown, since it regards them as connections given away.
type sockets struct {
	mu       sync.Mutex
	open     int           // guarded by mu, as all below
	draining chan struct{} // closed by drain; nil before anybody asked
	drained  bool
	empty    chan struct{} // closed when open falls to 0; nil while nobody waits
}

// enter counts a session. The returned channel is closed when sessions should end.
func (s *sockets) enter() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	return s.drainingLocked()
}

func (s *sockets) drainingLocked() chan struct{} {
	if s.draining == nil {
		s.draining = make(chan struct{})
	}
	return s.draining
}

func (s *sockets) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	if s.open == 0 && s.empty != nil {
		close(s.empty)
		s.empty = nil
	}
}

// drain asks all sessions to end, and returns a channel that is closed when they have.
func (s *sockets) drain() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.drained {
		s.drained = true
		close(s.drainingLocked())
	}
	if s.open == 0 {
		done := make(chan struct{})
		close(done)
		return done
	}
	if s.empty == nil {
		s.empty = make(chan struct{})
	}
	return s.empty
}

// Drain asks realtime sessions to end once they are at rest, and waits until they have ended or ctx
// has. Those that are left end when their server's base context is cancelled with [ErrDraining];
// call Drain again to wait for that.
func (g *Gateway) Drain(ctx context.Context) error {
	select {
	case <-g.sockets.drain():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
