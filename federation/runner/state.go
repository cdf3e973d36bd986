package runner

import (
	"time"

	"github.com/llmgov/llmgov/federation"
)

// State is how the beats of one pool fare.
type State struct {
	Beats, Failures int64
	// Answered is when the last answer came, and Reply is it; Sent is the beat that it
	// answers. Before the first one Answered is zero.
	Answered time.Time
	Sent     *federation.Beat
	Reply    federation.Reply
	// Err is what was wrong with the last beat, if it had no answer; Since is when that
	// began.
	Err   error
	Since time.Time
	// View is the pool's account as of Looked, some seconds ago.
	View   federation.View
	Looked time.Time
}

// alone reports whether nothing is granted: there is no answer, or none of use. Grants of
// before may be in force still.
func (s *State) alone() bool {
	return s.Err != nil || s.Answered.IsZero() || s.Reply.Status == federation.Learning
}

// State is how the beats of a pool fare; false if there was none yet.
func (r *Runner) State(pool string) (State, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.states[pool]
	return s, ok
}

// begin notes which pools there are.
func (r *Runner) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = map[string]bool{}
	for _, p := range r.cfg.Pools() {
		r.begun[p.Name()] = true
	}
	if len(r.begun) == 0 {
		close(r.first)
	}
}

// come notes that a pool has come to something.
func (r *Runner) come(pool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.begun[pool] {
		return
	}
	if delete(r.begun, pool); len(r.begun) == 0 {
		close(r.first)
	}
}

// note keeps what came of a beat.
func (r *Runner) note(now time.Time, ev *Event, sent *federation.Beat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.states[ev.Pool]
	s.Beats++
	if ev.Err == nil {
		s.Answered, s.Reply, s.Sent, s.Err, s.Since = now, ev.Reply, sent, nil, time.Time{}
	} else {
		s.Failures++
		if s.Err == nil {
			s.Since = now
		}
		s.Err = ev.Err
	}
	r.states[ev.Pool] = s
}

// forget drops the state of a pool that has nothing to share any more: what was wrong with
// its last beat is wrong no more.
func (r *Runner) forget(pool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.states, pool)
}

// Up reports whether the last beat of every pool that has something to share was answered.
func (r *Runner) Up() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.states {
		if s.Err != nil {
			return false
		}
	}
	return true
}

// Fenced reports whether another process has the node's name.
func (r *Runner) Fenced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.states {
		if s.Err == nil && s.Reply.Status == federation.Fenced {
			return true
		}
	}
	return false
}
