package limits

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow/limits/shape"
)

// Forecast describes how limits stand for a call.
type Forecast struct {
	// Answer is the answer of Offer, without a Hold.
	Answer Answer
	// Waits are how long it takes, on each axis with a limit, until there is room for the call behind
	// those that would go before it. On Concurrency that is only a guess.
	Waits [Axes]time.Duration
	// Rolling is the longest of Waits on the axes that count over time, if calls give back as much as they do on
	// average.
	Rolling time.Duration
	// Total is the call's cost, and that of all that would go before it.
	Total Cost
}

// Forecast describes how limits stand for a call, and changes nothing.
func (s *Set) Forecast(c Call) Forecast {
	cost := s.Clip(c.Cost)
	tag := s.line.tagBehind(&c)
	f := Forecast{Answer: s.judge(cost, &c)}
	_, fits := s.Fits(cost)
	if fits && len(s.line.places) == 0 {
		f.Answer.Verdict = Admitted
	}
	f.Total = s.line.ahead(tag).Plus(cost, 1)
	f.Rolling = s.rollingWait(cost, tag)
	for k, a := range s.accounts {
		if a != nil {
			f.Waits[k] = s.waitForRoom(Axis(k), s.inLine(Axis(k), f.Total, 0))
		}
	}
	if s.limits[Concurrency] > 0 && (s.running >= s.slots || len(s.line.places) > 0) {
		f.Waits[Concurrency] = s.slotWait(0)
	}
	return f
}

// LackAt explains why the call at a place does not go now.
func (s *Set) LackAt(p *Place) Lack { return s.lack(p.cost, p.tag, Cost{}, 0) }

// lack explains why c does not go now, and when it would, behind all that have its tag or a lower
// one, and so many calls that are away. Of several limits it names the one that takes longest, because the time is that limit's.
func (s *Set) lack(c Cost, tag int64, away Cost, calls int64) Lack {
	axis := s.lacking(c)
	slowest, wait := s.slowestFor(s.line.ahead(tag).Plus(c, 1).Plus(away, 1), calls)
	slots := s.slotWait(calls)
	if s.slots == 0 { // there is no call whose end would make room
		slots = max(slots, GrantRetry)
	}
	switch {
	case axis == Budget:
		return Lack{Axis: Budget}
	case axis == Concurrency && wait <= slots:
		wait = slots
	case wait > 0:
		axis = slowest
		wait = s.moved(slowest, wait)
	}
	return Lack{Axis: axis, Wait: max(time.Millisecond, wait)}
}

// lacking is the axis that keeps c waiting: one that c itself lacks, or one that the first call in
// line lacks.
func (s *Set) lacking(c Cost) Axis {
	axis, fits := s.Fits(c)
	first := s.line.first()
	if fits && first != nil {
		axis, fits = s.Fits(first.cost)
	}
	if !fits || s.limits[Concurrency] > 0 {
		return axis
	}
	// The first in line has been woken but has not run yet. It lacks nothing any more, but some limit
	// made it wait; Concurrency if that limit is gone.
	timed := slices.IndexFunc(s.accounts[:], func(a shape.Account) bool { return a != nil })
	if timed < 0 {
		return Concurrency
	}
	return Axis(timed)
}

// rollingWait is how long it takes until the limits over time have room for c behind the line, if
// nobody else comes.
func (s *Set) rollingWait(c Cost, tag int64) time.Duration {
	_, wait := s.slowest(c, tag)
	return wait
}

// slowest is the limit over time that takes longest until it has room for c behind the line, and how
// long that is: until bookings leave it, or until running calls are expected to give back
// the rest of their holds, if that is sooner.
func (s *Set) slowest(c Cost, tag int64) (slowest Axis, longest time.Duration) {
	return s.slowestFor(s.line.ahead(tag).Plus(c, 1), 0)
}

// WaitFor is how long it takes until the limits over time have room for a cost, which may be that of several calls.
func (s *Set) WaitFor(total Cost) time.Duration {
	_, wait := s.slowestFor(total, 0)
	return wait
}

// slowestFor is slowest for the cost of calls, so many of which are away.
func (s *Set) slowestFor(total Cost, away int64) (slowest Axis, longest time.Duration) {
	for k, a := range s.accounts {
		if a == nil {
			continue
		}
		amount := s.inLine(Axis(k), total, away)
		wait := s.waitForRoom(Axis(k), amount)
		due := s.due[s.Kind(Axis(k))]
		if due > 0 && wait > s.meanRun {
			wait = min(wait, max(s.meanRun, s.waitForRoom(Axis(k), amount-due)))
		}
		if wait > longest {
			slowest = Axis(k)
			longest = wait
		}
	}
	return slowest, longest
}

// inLine is the amount of an axis that calls take together: no more calls than those in line, those away and one.
func (s *Set) inLine(k Axis, total Cost, away int64) int64 {
	return s.amounts(k, total, int64(len(s.line.places))+away+1)
}

// waitForRoom is how long it takes until a limit over time has room for total, which may be several
// calls and more than the limit.
func (s *Set) waitForRoom(k Axis, total int64) time.Duration {
	a := s.accounts[k]
	limit := s.limits[k]
	switch {
	case total <= 0 || a.Room() >= total:
		return 0
	case a.Limit() < limit: // other processes use it, too
		return s.waitForOthers(k, total)
	}
	times := (total - 1) / limit // how often it is used up before that
	at, known := a.FreeAt(total - times*limit)
	if !known {
		at = s.now.Add(s.length[k])
	}
	return max(0, time.Duration(times)*s.length[k]+at.Sub(s.now))
}

// slotWait guesses how long it takes until a slot is free for a call behind so many that are away, from how long calls have run so far.
func (s *Set) slotWait(away int64) time.Duration {
	slots := s.limits[Concurrency]
	if slots == 0 {
		return 0
	}
	mean := s.meanRun
	if mean <= 0 {
		mean = time.Second
	}
	return (time.Duration(len(s.line.places)+1) + time.Duration(away)) * mean / time.Duration(slots)
}

// WaitOn is how long it takes until a limit has room for a cost, as far as is known here.
func (s *Set) WaitOn(k Axis, c Cost) time.Duration {
	if k == Concurrency {
		return s.slotWait(0)
	}
	if s.accounts[k] == nil {
		return 0
	}
	return s.waitForRoom(k, s.inLine(k, c, 0))
}
