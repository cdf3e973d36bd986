package limits

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// Hold is a call's cost as it stands in a Set: booked in a slot of each ledger or, while the call
// waits elsewhere, held.
type Hold struct {
	cost    Cost
	due     Cost // part of cost that is expected to be given back
	slot    [Rolling]int64
	ledgers [Rolling]*escrow.Ledger // in which it stands; Configure may have replaced them
	booked  bool
}

// Booked reports whether the hold is booked: neither suspended nor empty.
func (h *Hold) Booked() bool { return h.booked }

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
	*h = Hold{cost: c, ledgers: s.ledgers, booked: true}
	for k, l := range s.ledgers {
		if l != nil {
			l.Book(c[k])
			h.slot[k] = l.Slot()
		}
		if k == int(Tokens) || k == int(Output) {
			h.due[k] = int64(float64(c[k]) * max(0, 1-s.ratio))
			s.due[k] += h.due[k]
		}
	}
	s.running++
}

// Suspend turns a booking into a hold, which counts at any time, while its call waits elsewhere.
func (s *Set) Suspend(h *Hold) {
	for k, l := range h.ledgers {
		if l != nil {
			l.Correct(h.slot[k], -h.cost[k])
			l.Hold(h.cost[k])
		}
	}
	h.booked = false
}

// Resume books a suspended hold as of now, because its call starts. From then on it is known when it
// leaves the minute, which the first in line may want to know; see Turn.
func (s *Set) Resume(h *Hold) {
	for k, l := range h.ledgers {
		if l != nil {
			l.Drop(h.cost[k])
			l.Book(h.cost[k])
			h.slot[k] = l.Slot()
		}
	}
	h.booked = true
}

// Settle replaces a hold by the actual cost of its call. ran is 0 for a call that never ran, from which
// nothing is learned.
func (s *Set) Settle(h *Hold, actual Cost, ran time.Duration) {
	for k, l := range h.ledgers {
		s.due[k] -= h.due[k]
		switch {
		case l == nil:
		case h.booked:
			l.Correct(h.slot[k], actual[k]-h.cost[k])
		default:
			l.Drop(h.cost[k])
			l.Book(actual[k])
		}
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
	for k, l := range s.ledgers {
		if l != nil {
			first := min(booked[k], took[k], l.Limit())
			l.BookAt(began, first)
			l.BookAt(ended, took[k]-first)
		}
	}
}
