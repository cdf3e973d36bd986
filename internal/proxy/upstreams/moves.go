package upstreams

import (
	"math"
	"sync"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
)

// Range is where a pool's limit on a unit may be. One that does not move has a Most of 0.
type Range struct {
	Least, Most int64 // Least is what is configured of a limit that does not move; 0 is no limit
	// Throttles has what the upstreams refuse move it. Else what they declare may raise it.
	Throttles bool
	// Ramp is by how many times use may grow in a minute; 0 is any.
	Ramp float64
}

const (
	// doubles is the time in which a limit doubles of which it is not known what the upstream takes.
	doubles = 15 * time.Second
	// probes is the part of what the upstream took when it last refused by which the limit rises in a minute, beyond nearby of that faster times as
	// much. Beyond elsewhere, what it takes has changed.
	probes, nearby, faster, elsewhere = .01, 1.01, 6, 1.2
	// backOff is the part of what the upstream took that is taken off when it refuses.
	backOff = .04
	// refusalsApart is the time from one refusal that counts to the next. Those between are of calls that were on their way.
	refusalsApart = 5 * time.Second
	// shortOf is the part of the limit that is used in a minute if callers want more. Of several gateways' limit it is used up some seconds after it
	// has risen.
	shortOf = .4
	// rampFrom is the part of a limit from which use may grow after quiet.
	rampFrom = 10
	// unheard is how long a gateway that has not heard from others leaves a limit to them. Beside a lost store it begins at the least afterwards.
	unheard = 3 * time.Second
)

// mover finds out where in its Range a limit is, by how much all calls of all gateways have used in the last minute: of that every
// gateway knows the same, so all find the same limit, but for the one that is refused something, whose lower limit holds for all.
//
// An upstream that counts rolling minutes has taken its limit in the minute in which it refuses for the first time; one that counts fixed minutes
// or has a bucket may have taken more, and refuses again soon.
type mover struct {
	own     ledger
	at      time.Time // of the last look
	found   float64   // what the upstream takes, as far as is known
	known   time.Time // of the last look, perhaps by an earlier process
	knee    float64   // what it took when it last refused; 0 is that nothing near it was refused
	refused time.Time // when that was
	ramped  float64   // what a ramp leaves

	limit, ramp int64 // found and ramped as they were told last
}

// look takes in how much was used in the last minute, and whether an upstream has refused a call since the last look. It reports whether that
// moves the limit.
func (m *mover) look(now time.Time, r *Range, used int64, refused, shared bool) (news bool) {
	since := min(now.Sub(m.at), refusalsApart)
	m.own.note(now, used)
	first := m.at.IsZero() // from which on a limit is not left to others any more
	if first {
		m.found = max(m.found, float64(used)) // which an earlier process may have found
		m.ramped = float64(used)
		since = 0
	}
	m.at = now
	m.known = now
	if r.Throttles {
		m.throttle(now, since, refused, shared)
	}
	m.found = within(m.found, r)
	news = tell(&m.limit, m.found) || first
	if r.Ramp > 0 {
		m.ramped = max(min(m.ramped*math.Pow(r.Ramp, since.Minutes()), r.Ramp*float64(used), float64(max(r.Least, r.Most))), float64(r.Least)/rampFrom)
		news = tell(&m.ramp, m.ramped) || news
	}
	return news
}

// within is a limit where it may be.
func within(limit float64, r *Range) float64 {
	return min(max(limit, float64(r.Least)), float64(max(r.Least, r.Most)))
}

// throttle moves what is known that the upstream takes.
func (m *mover) throttle(now time.Time, since time.Duration, refused, shared bool) {
	switch {
	case refused && now.Sub(m.refused) >= refusalsApart:
		took := float64(m.own.used)
		if shared { // what others have used is known as of a moment ago
			took += float64(m.own.since(0) / 2)
		}
		m.knee = min(m.found, took)
		m.found = (1 - backOff) * m.knee
		m.refused = now
	case float64(m.own.used) < shortOf*m.found: // it is not the limit that keeps callers from more
	case m.knee == 0:
		m.found *= 1 + math.Ln2*since.Seconds()/doubles.Seconds()
	default:
		rise := probes * m.knee * since.Minutes()
		if m.found > nearby*m.knee {
			rise *= faster
		}
		m.found += rise
		if m.found > elsewhere*m.knee {
			m.knee = 0
		}
	}
}

// tell tells another figure if it is news.
func tell(last *int64, figure float64) (news bool) {
	n := int64(figure)
	if off := max(n-*last, *last-n); off == 0 || off*newsPart < n {
		return false
	}
	*last = n
	return true
}

// movers are those of a pool's limits, by axis. They are kept from one Set to the next.
type movers struct {
	mu    sync.Mutex
	list  [limits.Kinds]mover // guarded by mu
	began time.Time           // the same, when Limits were asked for first
}

// Moves reports whether any of the pool's limits moves.
func (s *Set) Moves() bool { return s.Ranges != [limits.Kinds]Range{} }

// Look takes in how much all calls of the pool have used in the last minute, below 0 what is unknown, and whether an upstream has refused one since the
// last look. It reports whether that moves a limit. It is to be called each second at least if the Set Moves.
func (s *Set) Look(now time.Time, used Told, refused bool) (news bool) {
	s.movers.mu.Lock()
	defer s.movers.mu.Unlock()
	for _, of := range Limited {
		if n := used[of]; n >= 0 && s.Ranges[of] != (Range{}) {
			news = s.movers.list[of].look(now, &s.Ranges[of], n, refused, s.Shared) || news
		}
	}
	return news
}

// Limits are what is found of the pool's limits by now, given those that are configured, and what a ramp leaves of that.
func (s *Set) Limits(now time.Time, configured Told) (found, left Told) {
	s.movers.mu.Lock()
	defer s.movers.mu.Unlock()
	found = configured
	if s.movers.began.IsZero() {
		s.movers.began = now
	}
	for _, of := range Limited {
		r := &s.Ranges[of]
		m := &s.movers.list[of]
		limit := &found[of]
		if raised := max(r.Most, *limit); r.Most > 0 {
			switch {
			case !r.Throttles && s.declare(now, of),
				s.Shared && s.unheard(now, m, r): // others know, and go by the lowest that any gateway tells
				*limit = raised
			case r.Throttles:
				*limit = min(max(m.limit, *limit), raised)
			default: // so that a gateway that has just got its first call takes nothing from others
				*limit = min(max(m.own.used, *limit), raised)
			}
		}
		left[of] = *limit
		if r.Ramp > 0 && !m.at.IsZero() {
			left[of] = min(*limit, max(m.ramp, 1))
		}
	}
	return found, left
}

// unheard reports whether a gateway has nothing to say of a limit: it has no calls, or was not told yet what is used.
func (s *Set) unheard(now time.Time, m *mover, r *Range) bool {
	if !r.Throttles {
		return s.uses.none(now)
	}
	return m.at.IsZero() && now.Sub(s.movers.began) < unheard
}

// declare reports whether all members declare a limit, and may raise the pool's by it.
func (s *Set) declare(now time.Time, of limits.Axis) bool {
	for _, m := range s.Members {
		m.mu.Lock()
		l := m.largestLocked(now, false)
		m.mu.Unlock()
		if m.heeds != HeedFollow || l.Told[of] == 0 {
			return false
		}
	}
	return true
}
