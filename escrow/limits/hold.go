package limits

import "time"

// Hold is a call's cost as it stands in a Set: booked in a slot of each account or, while the call
// waits elsewhere, held.
type Hold struct {
	cost   Cost
	due    Cost // part of cost that is expected to be given back
	slot   [Timed]int64
	in     *books // in which it stands; Configure may have replaced them
	booked bool
	free   bool // usage beyond it makes no debt
}

// Booked reports whether the hold is booked: neither suspended nor empty.
func (h *Hold) Booked() bool { return h.booked }

// Forgive makes no debt of the call's usage beyond the limits, because they are not enforced for it.
func (h *Hold) Forgive() { h.free = true }

// Book books a cost, whether it fits or not. A cost that was offered is cut to the limits; see
// Answer.
func (s *Set) Book(c Cost) (h Hold) {
	s.book(c, &h)
	return h
}

func (s *Set) book(c Cost, h *Hold) {
	s.noteBooked(c)
	s.count(c, h)
}

// count counts a cost as booked, in h.
func (s *Set) count(c Cost, h *Hold) {
	*h = Hold{cost: c, in: s.books, booked: true}
	for k, a := range &h.in.accounts {
		if a != nil {
			h.book(Axis(k))
		}
	}
	for _, k := range []Axis{Tokens, Output} {
		h.due[k] = int64(float64(c[k]) * max(0, 1-s.ratio))
		s.due[k] += h.due[k]
	}
	s.running++
}

// book books the hold on an axis as of now.
func (h *Hold) book(k Axis) {
	a := h.in.accounts[k]
	a.Book(h.in.Amount(k, h.cost))
	h.slot[k] = a.Slot()
}

// Suspend turns a booking into a hold, which counts at any time, while its call waits elsewhere.
func (s *Set) Suspend(h *Hold) {
	for k, a := range h.in.accounts {
		if a != nil {
			amount := h.in.Amount(Axis(k), h.cost)
			a.Hold(amount) // before the booking goes: else debt takes its room
			a.Correct(h.slot[k], -amount)
		}
	}
	h.booked = false
}

// Resume books a suspended hold as of now, because its call starts. From then on it is known when it
// leaves the limits, which the first in line may want to know; see Turn.
func (s *Set) Resume(h *Hold) {
	for k, a := range h.in.accounts {
		if a != nil {
			a.Drop(h.in.Amount(Axis(k), h.cost))
			h.book(Axis(k))
		}
	}
	h.booked = true
}

// Settle replaces a hold by the actual cost of its call. ran is 0 for a call that never ran, from which
// nothing is learned.
func (s *Set) Settle(h *Hold, actual Cost, ran time.Duration) {
	for k, due := range h.due {
		s.due[k] -= due
	}
	for k, a := range &h.in.accounts {
		if a == nil {
			continue
		}
		took := actual[h.in.Kind(Axis(k))]
		held := h.in.Amount(Axis(k), h.cost)
		if !h.booked {
			a.Drop(held)
			h.book(Axis(k))
		}
		if h.free && took > held {
			a.Book(took - held)
			continue
		}
		a.Correct(h.slot[k], took-held)
	}
	s.running--
	if ran > 0 {
		s.learn(h.cost, actual, ran)
	}
}

// learn learns from a call, for forecasts.
func (s *Set) learn(held, actual Cost, ran time.Duration) {
	if s.meanRun == 0 {
		s.meanRun = ran
	}
	s.meanRun += (ran - s.meanRun) / 8
	if held[Tokens] > 0 {
		taken := float64(actual[Tokens]) / float64(held[Tokens])
		s.ratio += (min(1, taken) - s.ratio) / 16
	}
}

// Remember books a call of an earlier process: when it began, as far as it was booked then, and the
// rest when it ended. Of shared limits whoever shares them out remembers it, as long as nothing is lost there.
func (s *Set) Remember(began, ended time.Time, booked, took *Cost) {
	for k, a := range s.accounts {
		if a == nil {
			continue
		}
		kind := s.Kind(Axis(k))
		first := min(booked[kind], took[kind], a.Limit())
		if began.After(s.restored[k]) {
			a.BookAt(began, first)
		}
		if ended.After(s.restored[k]) {
			a.BookAt(ended, took[kind]-first)
		}
	}
}
