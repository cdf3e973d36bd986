package limits

import "time"

// Calls that ask go only if another process, which keeps the books of all, lets them in. The knowledge of
// this process decides only when they ask, and which of them need not.

// noRoom remembers that a limit had no room for an amount, and until when that is expected to last.
type noRoom struct {
	amount int64
	until  time.Time
}

// Behind says whether a call must not ask now, because calls wait before it that have to ask first.
// Its Lack names an axis to blame, and how long it takes until the limits over time have room.
func (s *Set) Behind(c Call) (Lack, bool) {
	cost := s.Clip(c.Cost)
	tag := s.line.tagBehind(&c)
	if s.mayAsk(s.line.after(tag), cost) {
		return Lack{}, false
	}
	axis := s.blame(cost.Plus(s.line.first().cost, 1), 2)
	return Lack{Axis: axis, Wait: s.rollingWait(cost, tag)}, true
}

// MayAsk reports whether it is the turn of the call at a place to ask. first says that it is the first
// in line.
func (s *Set) MayAsk(p *Place) (turn, first bool) {
	before := 0
	for s.line.places[before] != p {
		before++
	}
	return s.mayAsk(before, p.cost), before == 0
}

// Asking says whether the call at a place is asking.
func (s *Set) Asking(p *Place, asking bool) { p.asking = asking }

// mayAsk reports whether a call of cost c, with so many calls before it in line, may ask now: all of
// those are asking already, and as far as is known here there is room for all of them together.
func (s *Set) mayAsk(before int, c Cost) bool {
	for _, p := range s.line.places[:before] {
		if !p.asking {
			return false
		}
		c = c.Plus(p.cost, 1)
	}
	if before == 0 {
		return true
	}
	_, over := s.over(c, int64(before)+1)
	return !over
}

// HasRoom reports whether there is room for a call, as far as the usage of all processes is known here.
func (s *Set) HasRoom(c Cost) bool {
	_, over := s.over(c, 1)
	return !over
}

// over returns the first axis whose limit has no room for so many calls of cost sum, as far as the
// usage of all processes is known here.
func (s *Set) over(sum Cost, calls int64) (Axis, bool) {
	for k := range Axis(Axes) {
		if s.overOn(k, s.amounts(k, sum, calls)) {
			return k, true
		}
	}
	return Concurrency, false
}

// overOn reports whether an axis has a limit with no room for an amount.
func (s *Set) overOn(k Axis, amount int64) bool {
	return s.limits[k] > 0 && s.Used(k)+amount > s.limits[k]
}

// Blame returns the axis to blame because a call has to wait behind all that are in line.
func (s *Set) Blame(c Cost) Axis {
	return s.blame(s.line.cost.Plus(c, 1), int64(len(s.line.places)+1))
}

// blame returns the axis to blame because such calls have to wait: one that is full as far as is known
// here, else the one that the last refused call lacked, else any that has a limit.
func (s *Set) blame(sum Cost, calls int64) Axis {
	axis, over := s.over(sum, calls)
	if over {
		return axis
	}
	if s.limits[s.grants.lacked] > 0 {
		return s.grants.lacked
	}
	axis = 0
	for axis < Concurrency && s.limits[axis] == 0 {
		axis++
	}
	return axis
}

// Deny remembers that a call which asked found no room on an axis, and how long that is expected to
// last, unless a smaller amount is already known not to fit.
func (s *Set) Deny(k Axis, c Cost, wait time.Duration) {
	s.grants.lacked = k
	n := &s.grants.noRoom[k]
	amount := s.Amount(k, c)
	if !s.now.Before(n.until) || amount <= n.amount {
		*n = noRoom{amount, s.now.Add(wait)}
	}
}

// Denied returns the axis that a call need not ask for: it had no room, was expected to have none
// until later, and by all news since still has none. These news are seconds old at most,
// because somebody speaks for the limits as long as calls are refused.
func (s *Set) Denied(c Cost) (Lack, bool) {
	for k := range Axis(Axes) {
		n := &s.grants.noRoom[k]
		amount := s.Amount(k, c)
		if s.now.Before(n.until) && amount >= n.amount && s.overOn(k, amount) {
			s.NoteDenied()
			return Lack{Axis: k, Wait: n.until.Sub(s.now)}, true
		}
	}
	return Lack{}, false
}

// NoteDenied notes that a call is refused without asking, so that somebody goes on speaking for the
// limits.
func (s *Set) NoteDenied() { s.grants.refuses = true }

// Current reports whether grants are in force, and so the usage of others is known.
func (s *Set) Current() bool { return s.now.Before(s.grants.until) }
