package slots

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// refusedFor is how long a call that was refused for want of a slot is taken to want one.
const refusedFor = 2 * time.Second

// turnedAway are calls that were refused for want of a slot.
type turnedAway struct {
	at    time.Time // of the last one
	calls int64     // since refusedFor without one
}

// Lacks notes that a call was not dispatched at once, and reports whether to ask for more slots, or for more room, before the next
// regular time. queued says that the call waits; else it was refused. One that only a restriction, its tenant's soft cap or its band
// keeps waiting lacks no slot.
func (s *Side) Lacks(now time.Time, call *escrow.Call, queued bool) (ask bool) {
	by := s.pool.Keeps(call)
	if by == nil && s.pool.Free() {
		return false
	}
	if by != nil && by.Of != escrow.Background {
		return s.shared && s.roomComing(by, call.Leaf)
	}
	if s.Limiter != nil && s.full(call.Leaf, call.Background) {
		s.Limiter.Lacked(now)
	}
	if s.shared && !queued {
		s.refuse(now, s.pool.Top(call.Leaf))
	}
	return s.shared && s.pool.InFlight() < s.Together() // otherwise this process has all slots
}

// refuse notes that a call of a node below the pool was refused.
func (s *Side) refuse(now time.Time, top escrow.NodeID) {
	if s.refused[top] == nil {
		s.refused[top] = &turnedAway{}
	}
	s.refused[top].at = now
	s.refused[top].calls++
}

// allReturning is how many slots are wanted for calls that were refused and may come back.
func (s *Side) allReturning(now time.Time) (n int64) {
	for id, r := range s.refused {
		n += s.returning(id, int64(s.pool.Node(id).Running))
		if now.Sub(r.at) >= refusedFor {
			delete(s.refused, id)
		}
	}
	return n
}

// returning is how many slots a node wants for its refused calls, if it runs so many. At most as many
// as run: how often calls are refused says little, for each may retry many times.
func (s *Side) returning(id escrow.NodeID, running int64) int64 {
	if r := s.refused[id]; r != nil {
		return min(r.calls, max(1, running))
	}
	return 0
}
