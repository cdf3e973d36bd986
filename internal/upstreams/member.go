package upstreams

import (
	"sync"
	"time"
)

// Outcome is what came of a try.
type Outcome int

const (
	// Served is an answer, if of the caller's own error.
	Served Outcome = iota
	// Busy is an answer that asks to come back later.
	Busy
	// Failed is an answer that says that the upstream failed, or refuses its key.
	Failed
	// Silent is no answer.
	Silent
	// Stale says nothing of the upstream: a connection that was kept from an earlier call is lost.
	Stale
	// Abandoned says nothing of the upstream: the caller went away.
	Abandoned

	numOutcomes = int(iota)
)

var outcomeNames = [numOutcomes]string{"served", "busy", "failed", "silent", "stale", "abandoned"}

func (o Outcome) String() string { return outcomeNames[o] }

// Result is what came of a try, and what the answer said.
type Result struct {
	Outcome Outcome
	Began   time.Time // when it was chosen
	Probe   bool      // as Choose said
	Told    Told
	Model   string // of which the limits are
}

// Events are what has changed by a Result. Probed says that a probe failed, and Paused
// that it asks for a pause, which it has not done of late.
type Events struct{ Opened, Probed, Closed, Cooled, Paused, Limits bool }

// Any reports whether anything has.
func (e Events) Any() bool { return e != Events{} }

const (
	// longestCool bounds how long an upstream's word counts that asks to be left alone.
	longestCool = 5 * time.Minute
	// firstCool and lastCool are for those that do not say how long.
	firstCool = time.Second
	lastCool  = 30 * time.Second
	// leastCool bounds how soon who was told to come back comes back.
	leastCool = 50 * time.Millisecond
	// pausesApart is how long an upstream must have gone without a pause for the next one
	// to be news.
	pausesApart = time.Minute
	// limitsLast is how long a declared limit counts, and limitsFresh how long no newer
	// word of the same is looked at.
	limitsLast  = 5 * time.Minute
	limitsFresh = time.Minute
	// mostModels bounds whose limits are remembered.
	mostModels = 16
	// agreeing is how many answers in a row must declare the same limits before these count. One header
	// that is wrong must not take a pool's capacity away for minutes, and an upstream whose limits really
	// are lower than configured says so with every answer.
	agreeing = 3
)

// Member is one upstream of a pool. It is safe for concurrent use.
type Member struct {
	Name   string
	Weight int64

	*state
}

// state is what is believed of an upstream. It lives on from one Set to the next.
type state struct {
	identity string // what makes it the same upstream

	mu      sync.Mutex
	breaker breaker // guarded by mu, as all below
	cool    time.Time
	pause   time.Duration // of the last time that it did not say how long
	limits  map[string]limits
	tries   [numOutcomes]int64
}

// limits are those that an upstream has declared of a model; 0 is not said.
type limits struct {
	tokens, requests int64
	at               time.Time
	said             int // by how many answers in a row, up to agreeing
}

// agrees reports whether an answer declares the same limits.
func (l limits) agrees(t Told) bool { return l.tokens == t.Tokens && l.requests == t.Requests }

// readiness is whether a call may go there, else when it may.
type readiness struct {
	ok, probe bool
	cooled    bool // it is busy; else it does not work
	answers   bool // it does not work, and says so
	at        time.Time
}

func (s *state) readyLocked(now time.Time) readiness {
	ok, probe := s.breaker.ready(now)
	switch {
	case s.cool.After(now):
		return readiness{cooled: true, at: s.cool}
	case ok:
		return readiness{ok: true, probe: probe}
	}
	return readiness{answers: s.breaker.answers, at: s.breaker.until}
}

// Report notes what came of a try.
func (s *state) Report(now time.Time, r Result) (e Events) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries[r.Outcome]++
	switch r.Outcome {
	case Stale, Abandoned:
		if r.Probe && s.breaker.open {
			s.breaker.until = now
		}
		return e
	case Busy:
		before := s.cool
		s.coolLocked(now, r.Told)
		e.Cooled = s.cool.After(before)
		e.Paused = now.Sub(before) >= pausesApart
	case Served:
		s.pause = 0
	}
	works := r.Outcome == Served || r.Outcome == Busy
	was := s.breaker.open
	if s.breaker.record(now, works, r) {
		e.Opened = !was
		e.Probed = was && !works
		e.Closed = works
	}
	e.Limits = s.declareLocked(now, r)
	return e
}

// coolLocked leaves the upstream alone until the time that it said, or one that grows.
func (s *state) coolLocked(now time.Time, told Told) {
	pause := told.Retry
	if pause <= 0 {
		if !s.cool.After(now) { // else it is the same crowd that is refused
			s.pause = min(max(2*s.pause, firstCool), lastCool)
		}
		pause = max(s.pause, firstCool)
	}
	if until := now.Add(min(max(pause, leastCool), longestCool)); until.After(s.cool) {
		s.cool = until
	}
}

// declareLocked remembers the limits that an answer declares. It reports whether the limits that
// count may have changed.
func (s *state) declareLocked(now time.Time, r Result) bool {
	if r.Told.Tokens == 0 && r.Told.Requests == 0 {
		return false
	}
	old, known := s.limits[r.Model]
	said := 1
	if old.agrees(r.Told) {
		if old.said == agreeing && now.Sub(old.at) < limitsFresh {
			return false
		}
		said = min(old.said+1, agreeing)
	}
	if s.limits == nil {
		s.limits = map[string]limits{}
	}
	if !known && len(s.limits) >= mostModels {
		s.forgetOldestLocked()
	}
	s.limits[r.Model] = limits{tokens: r.Told.Tokens, requests: r.Told.Requests, at: now, said: said}
	return said == agreeing || old.said == agreeing
}

func (s *state) forgetOldestLocked() {
	oldest := ""
	at := time.Time{}
	for model, l := range s.limits {
		if at.IsZero() || l.at.Before(at) {
			oldest = model
			at = l.at
		}
	}
	delete(s.limits, oldest)
}

// believedLocked are the largest limits of late, and until when they count.
func (s *state) believedLocked(now time.Time) (most limits) {
	for _, l := range s.limits {
		if now.Sub(l.at) >= limitsLast || l.said < agreeing {
			continue
		}
		most.tokens = max(most.tokens, l.tokens)
		most.requests = max(most.requests, l.requests)
		if l.at.After(most.at) {
			most.at = l.at
		}
	}
	return most
}
