package realtime

import "sync"

// rest tells a drain when a session has no response of which the client has seen the beginning, but not the
// end.
type rest struct {
	ended chan struct{} // receives when a response has ended

	mu     sync.Mutex
	active int // guarded by mu
}

func newRest() *rest { return &rest{ended: make(chan struct{}, 1)} }

// begin notes that a response has begun.
func (r *rest) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active++
}

// done notes that the client has received the end of a response.
func (r *rest) done() {
	r.mu.Lock()
	r.active = max(0, r.active-1)
	r.mu.Unlock()
	select {
	case r.ended <- struct{}{}:
	default:
	}
}

// reached reports whether the session is at rest.
func (r *rest) reached() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.active == 0
}
