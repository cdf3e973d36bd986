package adaptive

import (
	"math"
	"time"
)

// Load is the load of the servers behind a limit, as they tell it themselves: of all calls that they have, whoever made them.
type Load struct {
	Running int64 `json:"running"`
	Waiting int64 `json:"waiting,omitempty"`
	// Full is how much of their memory for calls' contexts is in use, of the part that should be: at 1 they have as much as they should.
	// 0 is not known.
	Full float64 `json:"full,omitempty"`
	// MaxRunning is how many calls they run at once at most; 0 is not known.
	MaxRunning int64 `json:"max_running,omitempty"`
}

const (
	// lasting is for how many loads in a row servers must have more than fits until the limit falls: calls that have just come, and
	// contexts about to end, are no lack of room.
	lasting = 3
	// loadAge is for how long a Load counts.
	loadAge = 4 * time.Second
)

// roomIn is how many calls in flight the servers have room for, told while so many are. Each takes a like part of what runs, and of
// the memory, so the limits of several fleets before the same servers fall by the same part.
func (s *Load) roomIn(inFlight int64) float64 {
	room := math.Inf(1)
	calls := float64(inFlight)
	if waiting := float64(s.Waiting); waiting > max(fewest, toleratedFirst*float64(s.Running)) {
		room = calls * float64(s.Running) / (float64(s.Running) + waiting)
		if s.Running == 0 {
			room = max(0, calls-waiting)
		}
	}
	if s.Full > 0 {
		room = min(room, calls/s.Full)
	}
	if s.MaxRunning > 0 {
		room = min(room, float64(s.MaxRunning))
	}
	return room
}

// servers are the servers behind a limit, as they were heard of last.
type servers struct {
	room    float64   // for calls in flight
	heard   time.Time // when
	lacking int       // loads in a row that left too little room, of lasting
	least   float64   // the most room that one of these left
}

// roomAt is how many calls in flight there is room for, as far as is known.
func (s *servers) roomAt(now time.Time) float64 {
	if s.heard.IsZero() || now.Sub(s.heard) > loadAge {
		return math.Inf(1)
	}
	return s.room
}

// Loaded takes in a load of the servers, heard of while so many calls are in flight. The limit rises no further than they have
// room, and falls to that if they lack it for long. Then no more calls may be in flight than the limit allows before it falls again.
func (l *Limiter) Loaded(now time.Time, load Load, inFlight int64) {
	if inFlight <= 0 {
		return // it says nothing of calls that would be made
	}
	s := &l.servers
	if now.Sub(s.heard) > loadAge {
		s.lacking = 0
	}
	s.room = load.roomIn(inFlight)
	s.heard = now
	if s.room >= float64(inFlight) || inFlight > l.Limit() {
		s.lacking = 0
		return
	}
	if s.lacking == 0 {
		s.least = 0
	}
	s.lacking++
	s.least = max(s.least, s.room)
	if s.lacking < lasting {
		return
	}
	s.lacking = 0
	if s.least >= l.limit {
		return
	}
	l.set(max(s.least, l.limit/2))
	l.settle()
	l.turn(now, true)
}

// room is how many calls in flight the servers have room for; 0 if they do not say that it is bounded.
func (l *Limiter) room(now time.Time) int64 {
	room := l.servers.roomAt(now)
	if room > maxRoom {
		return 0
	}
	return max(1, int64(room))
}

// maxRoom is more than any limit.
const maxRoom = 1 << 40

// grow raises the limit, as far as the servers have room.
func (l *Limiter) grow(now time.Time, by float64) {
	l.set(max(l.limit, min(l.limit+by, l.servers.roomAt(now))))
}
