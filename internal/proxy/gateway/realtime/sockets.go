package realtime

import "sync"

// Sockets are the open sessions. net/http does not wait for them, nor tell them of a shutdown, because it
// regards them as connections given away.
type Sockets struct {
	mu       sync.Mutex
	open     int           // guarded by mu, as all below
	draining chan struct{} // closed by Drain; nil before anybody asked
	drained  bool
	empty    chan struct{} // closed when open falls to 0; nil while nobody waits
}

// Enter counts a session. The returned channel is closed when sessions should end.
func (s *Sockets) Enter() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	return s.drainingLocked()
}

func (s *Sockets) drainingLocked() chan struct{} {
	if s.draining == nil {
		s.draining = make(chan struct{})
	}
	return s.draining
}

// Leave counts the end of a session.
func (s *Sockets) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	if s.open == 0 && s.empty != nil {
		close(s.empty)
		s.empty = nil
	}
}

// Drain asks all sessions to end, and returns a channel that is closed when they have.
func (s *Sockets) Drain() <-chan struct{} {
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
