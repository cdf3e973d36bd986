package runner

import (
	"time"

	"github.com/llmgov/llmgov/federation"
)

// State tells how the beats of one pool fare.
type State struct {
	Beats, Failures int64
	// Answered is when the last answer came (zero if none has), Reply is that answer, and Sent the
	// beat that it answers.
	Answered time.Time
	Sent     *federation.Beat
	Reply    federation.Reply
	// Err is the error of the last beat, if it failed, and Since is since when beats have failed.
	Err   error
	Since time.Time
	// View is the pool's account as of Looked, which is some seconds ago.
	View   federation.View
	Looked time.Time
}

// alone reports whether nothing is granted: there is no answer, or none of use. Earlier grants may
// still be in force.
func (s *State) alone() bool {
	return s.Err != nil || s.Answered.IsZero() || s.Reply.Status == federation.Learning
}

// State returns how the beats of a pool fare; false if there were none yet.
func (r *Runner) State(pool string) (State, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.states[pool]
	return s, ok
}

// begin notes the pools that there are at the start.
func (r *Runner) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unanswered = map[string]bool{}
	for _, p := range r.cfg.Pools() {
		r.unanswered[p.Name()] = true
	}
	if len(r.unanswered) == 0 {
		close(r.first)
	}
}

// firstDone notes that the first beat of a pool is done, or not needed.
func (r *Runner) firstDone(pool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.unanswered[pool] {
		return
	}
	if delete(r.unanswered, pool); len(r.unanswered) == 0 {
		close(r.first)
	}
}

// note keeps the outcome of a beat.
func (r *Runner) note(now time.Time, ev *Event, sent *federation.Beat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.states[ev.Pool]
	s.Beats++
	if ev.Err == nil {
		s.Answered, s.Reply, s.Sent, s.Err, s.Since = now, ev.Reply, sent, nil, time.Time{}
		r.formats.hear(now, ev.Reply.Format, r.cfg.Rules.Window)
	} else {
		s.Failures++
		if s.Err == nil {
			s.Since = now
		}
		s.Err = ev.Err
	}
	r.states[ev.Pool] = s
}

// forget drops the state of a pool that has nothing to share any more: an error of its last beat
// means nothing now.
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

// formats is what answers say of the newest format that all nodes understand.
type formats struct {
	lowest int // of those heard in the last Window; 0 if there was none
	heard  time.Time
}

// hear takes in what one answer says. A higher format than before has to be heard for a Window: a store that has lost its data
// does not know all nodes at first.
func (f *formats) hear(now time.Time, format int, window time.Duration) {
	if format == 0 || format > f.lowest && f.lowest > 0 && now.Sub(f.heard) <= window {
		return
	}
	f.lowest = format
	f.heard = now
}

// Format is the newest federation.Format that all nodes understand; 0 is unknown, as before the first answer.
func (r *Runner) Format() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.formats.lowest
}

// Fenced reports whether another process has taken the node's name.
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
