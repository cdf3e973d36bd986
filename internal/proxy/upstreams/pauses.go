package upstreams

import (
	"sync"
	"time"
)

// Scope is what a pause is about: providers limit each model (or deployment) by itself, and beside it classes of calls such as
// embeddings. The zero value is everything.
type Scope struct{ Model, Class string }

const (
	// longestCool bounds the pause that an upstream can ask for: after it a call is the second sign.
	longestCool = 10 * time.Minute
	// firstCool and lastCool bound pauses without a time.
	firstCool = time.Second
	lastCool  = 30 * time.Second
	// leastCool is the shortest pause.
	leastCool = 50 * time.Millisecond
	// pausesApart is the time without a pause after which the next one is an event.
	pausesApart = time.Minute
	// inUse is for how long a scope is in use that had a call.
	inUse = time.Minute
	// mostScopes bounds the scopes that are remembered.
	mostScopes = 64
)

// pause is the last one of a scope.
type pause struct {
	end  time.Time
	last time.Duration // that it had without a time
}

// extend pauses until the time that was asked for, or for a time that grows.
func (p *pause) extend(now time.Time, wait time.Duration) {
	if wait <= 0 {
		if !p.end.After(now) { // else the refusals are of the same burst
			p.last = min(max(2*p.last, firstCool), lastCool)
		}
		wait = max(p.last, firstCool)
	}
	if until := now.Add(min(max(wait, leastCool), longestCool)); until.After(p.end) {
		p.end = until
	}
}

// pauses are those of an upstream.
type pauses map[Scope]*pause

// of is the pause of a scope, to be changed.
func (ps *pauses) of(now time.Time, s Scope) *pause {
	if *ps == nil {
		*ps = pauses{}
	}
	p := (*ps)[s]
	if p == nil {
		if len(*ps) >= mostScopes {
			ps.forget()
		}
		p = &pause{}
		(*ps)[s] = p
	}
	return p
}

// forget forgets the pause that ends first.
func (ps pauses) forget() {
	var first Scope
	var at time.Time
	for s, p := range ps {
		if at.IsZero() || p.end.Before(at) {
			first = s
			at = p.end
		}
	}
	delete(ps, first)
}

// served notes that a call was served, of a scope and so of all calls.
func (ps pauses) served(s Scope) {
	for _, of := range []Scope{s, {}} {
		if p := ps[of]; p != nil {
			p.last = 0
		}
	}
}

// until is the end of the pause of a scope; given none, of the first pause of those in use, if all of these pause. It is in the past
// if there is none.
func (ps pauses) until(now time.Time, s Scope, in *uses) (at time.Time) {
	if len(ps) == 0 { // as most of the time
		return at
	}
	if s == (Scope{}) {
		at = in.until(now, ps)
	} else if p := ps[s]; p != nil {
		at = p.end
	}
	if all := ps[Scope{}]; all != nil && all.end.After(at) {
		at = all.end
	}
	return at
}

// uses are the scopes of a pool's calls, and when the last call of each came.
type uses struct {
	mu sync.Mutex
	at map[Scope]time.Time // guarded by mu
}

// note notes a call, and reports whether its scope was not in use.
func (u *uses) note(now time.Time, s Scope) (news bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	at, known := u.at[s]
	if !known && len(u.at) >= mostScopes {
		oldest := s
		at = now
		for other, t := range u.at {
			if !t.After(at) {
				oldest = other
				at = t
			}
		}
		delete(u.at, oldest)
	}
	u.at[s] = now
	return !known || now.Sub(at) >= inUse
}

// none reports whether there was no call for as long as a scope is in use.
func (u *uses) none(now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, at := range u.at {
		if now.Sub(at) < inUse {
			return false
		}
	}
	return true
}

// until is the end of the first pause of those in use, if all of them pause.
func (u *uses) until(now time.Time, ps pauses) (first time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for s, at := range u.at {
		if now.Sub(at) >= inUse && !now.Before(at) {
			continue
		}
		p := ps[s]
		if p == nil || !p.end.After(now) {
			return time.Time{}
		}
		if first.IsZero() || p.end.Before(first) {
			first = p.end
		}
	}
	return first
}

// Use notes a call of a scope. It reports whether none came of late: then pauses may not be of all calls any more.
func (s *Set) Use(now time.Time, of Scope) (news bool) { return s.uses.note(now, of) }

// Held reports whether the governor lets no call go to some members, because all of them pause for all calls in use, or do not work:
// the whole pool, if members have no limits of their own.
func (s *Set) Held(now time.Time, among Mask) bool {
	if !s.limited {
		among = s.all
	}
	at, only := s.Pause(now, among, Scope{})
	return only && !at.IsZero()
}
