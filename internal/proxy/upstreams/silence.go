package upstreams

import "time"

// silentAfter is how long nothing is heard of an upstream at least that is called silent.
const silentAfter = 10 * time.Second

// silence is how long calls have waited for the answers of an upstream. One call may take long by itself; an upstream is silent if
// several wait, and for twice as long as any answer has taken of late.
type silence struct {
	waiting int64     // calls without an answer
	heard   time.Time // of the upstream, or the first of those that wait was sent
	longest time.Duration
}

func (s *silence) sent(now time.Time) {
	if s.waiting == 0 {
		s.heard = now
	}
	s.waiting++
}

// ended notes that a call that took so long waits no more, because its answer has come or for another reason.
func (s *silence) ended(now time.Time, took time.Duration, answered bool) {
	s.waiting--
	if answered {
		s.heard = now
		s.longest = max(took, s.longest-(s.longest-took)/64)
	}
}

// since is when a silence began, if it is one.
func (s *silence) since(now time.Time) (at time.Time, silent bool) {
	return s.heard, s.waiting > 1 && now.Sub(s.heard) >= max(silentAfter, 2*s.longest)
}

// Sent notes that a call waits for its answer, until AnswerEnded.
func (s *state) Sent(now time.Time) {
	s.mu.Lock()
	s.silence.sent(now)
	s.mu.Unlock()
}

// AnswerEnded ends the wait of a call that was Sent: its answer has begun, or it waits no more.
func (s *state) AnswerEnded(now, sent time.Time, answered bool) {
	s.mu.Lock()
	s.silence.ended(now, now.Sub(sent), answered)
	s.mu.Unlock()
}

// Silent reports whether nothing is heard of the member, since when, and how many calls wait for it.
func (s *state) Silent(now time.Time) (since time.Time, waiting int64, silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, silent = s.silence.since(now)
	return since, s.silence.waiting, silent
}
