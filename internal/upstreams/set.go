package upstreams

import (
	"math/bits"
	"sync"
	"time"
)

// Most is how many upstreams a pool may have.
const Most = 64

// Spec is an upstream as a configuration has it. Identity is what it is besides its name:
// when that changes, nothing is believed of it any more.
type Spec struct {
	Name     string
	Weight   int64
	Identity string
}

// Set is a pool's upstreams. It is safe for concurrent use.
type Set struct {
	Members []*Member
	all     Mask

	mu    sync.Mutex
	wheel [Most]int64 // guarded by mu: how far each is ahead of its turn
}

// Mask is some of a Set's members, by their index.
type Mask uint64

// With is the mask with one more.
func (m Mask) With(i int) Mask { return m | 1<<i }

// New makes a Set. What is believed of those of the set before lives on.
func New(list []Spec, before *Set) *Set {
	s := &Set{}
	for i, spec := range list {
		m := &Member{Name: spec.Name, Weight: spec.Weight}
		if before != nil {
			for _, old := range before.Members {
				if old.Name == spec.Name && old.identity == spec.Identity {
					m.state = old.state
				}
			}
		}
		if m.state == nil {
			m.state = &state{identity: spec.Identity}
		}
		s.Members = append(s.Members, m)
		s.all = s.all.With(i)
	}
	return s
}

// All is the mask of all members.
func (s *Set) All() Mask { return s.all }

// Choice is where a call goes. If there is no such place, At is when there may be one:
// if Busy, when the first that asked for a pause may be called again.
type Choice struct {
	Index int
	Probe bool // to be given back with the Result
	OK    bool
	Busy  bool
	At    time.Time
}

// Choose picks one of some members, by weight among those that are ready. The same
// calls in the same order are always answered the same.
func (s *Set) Choose(now time.Time, among Mask) Choice {
	s.mu.Lock()
	defer s.mu.Unlock()
	best := -1
	total := int64(0)
	var none Choice
	for left := among & s.all; left != 0; left &= left - 1 {
		i := bits.TrailingZeros64(uint64(left))
		m := s.Members[i]
		m.mu.Lock()
		r := m.readyLocked(now)
		m.mu.Unlock()
		if !r.ok {
			if none.At.IsZero() || r.cooled && !none.Busy || r.cooled == none.Busy && r.at.Before(none.At) {
				none.At = r.at
				none.Busy = r.cooled
			}
			continue
		}
		s.wheel[i] += m.Weight
		total += m.Weight
		if best < 0 || s.wheel[i] > s.wheel[best] {
			best = i
		}
	}
	if best < 0 {
		return none
	}
	s.wheel[best] -= total
	return Choice{Index: best, OK: true, Probe: s.Members[best].take(now)}
}

// take makes a call the probe, if the member is to be probed. Another Set may share the
// member and have been faster: then this call goes beside its probe.
func (s *state) take(now time.Time) (probe bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ok, probe := s.breaker.ready(now); !ok || !probe {
		return false
	}
	s.breaker.probed(now)
	return true
}

// Pause is when the first of some members that asked for a pause may be called again, or
// zero if none did. only says that no other of them may be called meanwhile.
func (s *Set) Pause(now time.Time, among Mask) (at time.Time, only bool) {
	only = true
	for left := among & s.all; left != 0; left &= left - 1 {
		m := s.Members[bits.TrailingZeros64(uint64(left))]
		m.mu.Lock()
		r := m.readyLocked(now)
		m.mu.Unlock()
		only = only && !r.ok
		if r.cooled && (at.IsZero() || r.at.Before(at)) {
			at = r.at
		}
	}
	return at, only
}

// Answering picks one that does not work and says so itself.
func (s *Set) Answering(now time.Time, among Mask) (i int, ok bool) {
	for left := among & s.all; left != 0; left &= left - 1 {
		i := bits.TrailingZeros64(uint64(left))
		m := s.Members[i]
		m.mu.Lock()
		r := m.readyLocked(now)
		m.mu.Unlock()
		if r.answers {
			return i, true
		}
	}
	return 0, false
}

// State is what is believed of a member.
type State struct {
	// Up says that its breaker is closed. Probing says that the next call tells whether
	// it works again.
	Up, Probing bool
	// Since is when the breaker opened; zero if it is closed.
	Since time.Time
	// Retry is when it may be called again; zero for now.
	Retry time.Time
	// Busy says that it asked to be left alone until Retry.
	Busy bool
	// Tokens and Requests are what it declares a minute; 0 is nothing.
	Tokens, Requests int64
}

// State tells what is believed of a member.
func (s *state) State(now time.Time) State {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.readyLocked(now)
	l := s.believedLocked(now)
	var since time.Time
	if s.breaker.open {
		since = s.breaker.since
	}
	return State{
		Since: since,
		Up:    !s.breaker.open, Probing: s.breaker.open && !now.Before(s.breaker.until),
		Retry: r.at, Busy: r.cooled, Tokens: l.tokens, Requests: l.requests,
	}
}

// Tries counts the tries by their Outcome.
func (s *state) Tries() [numOutcomes]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tries
}
