package slots

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
)

// Grant is how many of a pool's slots a process may use.
type Grant struct {
	// Slots is how many calls may run here, and Others how many run in other processes.
	Slots, Others int64
	// Notes are those of other processes.
	Notes []adaptive.Note `json:",omitempty"`
	// Bounds are as they were claimed.
	Bounds []BoundGrant `json:",omitempty"`
}

// Allow puts a grant in force until the given time; nil leaves the one before. Call escrow.Pool.Pump afterwards.
func (s *Side) Allow(now, until time.Time, grant *Grant) {
	s.alone = false
	s.until = until
	if grant != nil {
		s.grant = *grant
		if s.Limiter != nil {
			_, used := s.InUse()
			s.Limiter.Hear(now, grant.Notes, used)
		}
	}
	s.Expire(now)
	s.Narrow()
}

// Alone says that nobody answers. Once the grant has expired, and until Allow, the pool goes by its rules for that
// case (Loss). Call escrow.Pool.Pump afterwards.
func (s *Side) Alone(now time.Time) {
	s.alone = true
	if s.Limiter != nil {
		s.Limiter.Alone()
	}
	s.Expire(now)
	s.Narrow()
}

// Fence says that another process has taken this one's name: no call begins here any more.
func (s *Side) Fence() {
	s.fenced = true
	s.Narrow()
}

// Expire gives up a grant that has expired. Call it before calls may be dispatched.
func (s *Side) Expire(now time.Time) {
	if !s.until.IsZero() && !now.Before(s.until) {
		s.Drop()
		s.Narrow()
	}
}

// Drop gives up the grant. Call Narrow when the pool is to go by that.
func (s *Side) Drop() {
	s.until = time.Time{}
	s.grant = Grant{}
}

// Granted reports whether a grant is in force.
func (s *Side) Granted() bool { return !s.until.IsZero() }

// IsAlone reports whether nobody answers.
func (s *Side) IsAlone() bool { return s.alone }

// IsFenced reports whether another process has taken this one's name.
func (s *Side) IsFenced() bool { return s.fenced }

// Lost reports whether there are slots of which other processes have parts, and none is granted to this one now.
func (s *Side) Lost() bool { return s.shared && s.rules.Slots > 0 && s.until.IsZero() }

// Own is how many slots the pool allows itself when nobody answers.
func (s *Side) Own() int64 { return s.rules.Loss.Own(s.Limit()) }

// usable is how many of the given slots may be used here.
func (s *Side) usable(slots int64) int64 {
	switch {
	case s.fenced:
		return 0
	case s.alone && s.until.IsZero():
		return min(slots, s.Own())
	}
	return min(slots, s.grant.Slots)
}

// Coming reports whether a call lacks nothing but a grant that no process has, as far as is known.
func (s *Side) Coming(call *escrow.Call) bool {
	if !s.shared || s.alone || s.fenced {
		return false
	}
	by := s.pool.Keeps(call)
	if by == nil && s.pool.Free() || !s.roomComing(by, call.Leaf) {
		return false
	}
	limit, used := s.InUse()
	coming := used+s.pool.WaitingBefore(call.Leaf) < limit
	if call.Background {
		_, later := s.pool.Queued()
		limit, used = s.backgroundAnywhere()
		coming = coming && used+int64(later) < limit
	}
	return coming
}
