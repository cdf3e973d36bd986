package limits

import "time"

// Set is one set of limits with their usage, and the calls that wait for them.
type Set struct {
	*books
	now         time.Time
	slots       int64 // of the concurrent calls, how many may be used here
	running     int64
	grants      *grants       // nil = nobody else counts against the limits
	lacksBudget func() bool   // reports whether a call would wait for a grant of a budget; may be nil
	meanRun     time.Duration // a moving average; 0 before the first call has ended
	ratio       float64       // tokens that calls take of those they declare, smoothed
	due         Cost          // expected to be given back by all that is held
	line        line
	kept        []kept // places of refused calls, by their turns
	bound       int    // how many calls may wait in line
	// restored is the time until which an account has what an earlier process had booked: see Restore.
	restored [Timed]time.Time
}

// New returns a Set without limits. shared says that its limits are shared with other processes.
// lacksBudget reports whether calls have to wait for a grant of a budget of the same owner; nil if
// there is none.
func New(shared bool, lacksBudget func() bool) *Set {
	s := &Set{books: &books{}, ratio: 1, lacksBudget: lacksBudget}
	if shared {
		s.grants = &grants{}
	}
	return s
}

// Configure changes the limits, and how many calls may wait, while calls run and wait. Earlier usage
// counts on; a new limit begins with nothing used. The first in line may fit afterwards; see Turn.
func (s *Set) Configure(now time.Time, l Limits, bound int) {
	before := s.books
	s.books = before.renew(now, l)
	if s.grants != nil {
		s.grants.forget(before, s.books)
	}
	s.bound = bound
	s.limit()
	for _, p := range s.line.places {
		s.line.resize(p, s.Clip(p.asked))
	}
}

// Advance brings the books to now. It reports whether a grant has expired.
func (s *Set) Advance(now time.Time) (expired bool) {
	s.now = now
	s.expireKept()
	for k, a := range &s.accounts {
		switch {
		case a == nil:
		case s.grants == nil:
			a.Advance(now)
		default:
			s.advanceGranted(now, Axis(k))
		}
	}
	return s.expire()
}

// advanceGranted brings an account to now whose limit is shared.
func (s *Set) advanceGranted(now time.Time, k Axis) {
	a := s.accounts[k]
	ends := a.Ends()
	a.Advance(now)
	if a.Ends() != ends {
		s.grants.begin(k) // what was granted was of the window before
		a.SetLimit(s.usable(k))
	}
}

// Clip cuts a cost to the limits of the minute. A call that exceeds one goes when nothing else uses the limit, and
// its usage beyond it is debt, which counts until it has been paid off at the limit's rate.
func (s *Set) Clip(c Cost) Cost {
	for k := range c {
		if s.limits[k] > 0 {
			c[k] = min(c[k], s.limits[k])
		}
	}
	return c
}

// Fits reports whether a cost fits. If not, lacks is the first axis on which it does not.
func (s *Set) Fits(c Cost) (lacks Axis, ok bool) {
	for k, a := range &s.accounts {
		if a != nil && a.Room() < s.Amount(Axis(k), c) {
			return Axis(k), false
		}
	}
	if s.limits[Concurrency] > 0 && s.running >= s.slots {
		return Concurrency, false
	}
	if s.lacksBudget != nil && s.lacksBudget() {
		return Budget, false
	}
	return Concurrency, true
}

// Used is the usage of a limit in all processes, so far as that is known. It is 0 on a
// timed axis without a limit.
func (s *Set) Used(k Axis) int64 {
	if k == Concurrency {
		return s.running + s.elsewhere(k)
	}
	if s.accounts[k] == nil {
		return 0
	}
	return s.accounts[k].Used() + s.elsewhere(k)
}

// UsedHere is the usage of a limit in this process.
func (s *Set) UsedHere(k Axis) int64 {
	if k == Concurrency {
		return s.running
	}
	if s.accounts[k] == nil {
		return 0
	}
	return s.accounts[k].Used()
}

// FullAt is when all that is booked on a timed axis with a limit counts no more.
func (s *Set) FullAt(k Axis) time.Time { return s.accounts[k].FullAt() }

// Running is how many calls are held.
func (s *Set) Running() int64 { return s.running }

// Due is how much all holds are expected to give back.
func (s *Set) Due() Cost { return s.due }

// MeanRun is how long calls run, as a moving average; 0 before the first has ended.
func (s *Set) MeanRun() time.Duration { return s.meanRun }

// Idle reports whether no call is held or waits.
func (s *Set) Idle() bool { return s.running == 0 && len(s.line.places) == 0 }

// Beyond returns the first axis on which a cost, with the usage of this process, exceeds the
// given part of the limit. ok is false if there is none.
func (s *Set) Beyond(c Cost, part func(limit int64) int64) (k Axis, ok bool) {
	for k, limit := range s.limits {
		if limit > 0 && s.UsedHere(Axis(k))+s.Amount(Axis(k), c) > part(limit) {
			return Axis(k), true
		}
	}
	return 0, false
}
