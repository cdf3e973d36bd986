package limits

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow/limits/shape"
)

// WindowUse is the use that counts against a limit, to be saved. Of a limit of the minute it is debt alone, because a journal of calls has the rest.
type WindowUse struct {
	Name     string // of the limit
	Bookings []shape.Booking
}

// WindowUses are what counts of all limits over time.
func (s *Set) WindowUses() (list []WindowUse) {
	for k, a := range s.accounts {
		if a == nil {
			continue
		}
		bookings := a.Bookings()
		if Axis(k) < firstWindow {
			bookings = slices.DeleteFunc(bookings, func(b shape.Booking) bool { return !b.Owed })
		}
		if len(bookings) > 0 {
			list = append(list, WindowUse{s.Name(Axis(k)), bookings})
		}
	}
	return list
}

// Restore books what an earlier process had booked of a Window at a time. Then Remember skips calls, or their parts, until that time there.
func (s *Set) Restore(u *WindowUse, until time.Time) {
	for k := firstWindow; k < Concurrency; k++ {
		if s.accounts[k] == nil || s.Name(k) != u.Name {
			continue
		}
		for _, b := range u.Bookings {
			if !b.Owed {
				s.accounts[k].BookAt(b.At, b.Amount)
			}
		}
		s.restored[k] = until
	}
}

// Owe takes over what an earlier process owed.
func (s *Set) Owe(u *WindowUse) {
	for k, a := range s.accounts {
		if a == nil || s.Name(Axis(k)) != u.Name {
			continue
		}
		a.SetLimit(s.limits[k]) // at which it was paid off meanwhile, although nothing may be granted yet
		for _, b := range u.Bookings {
			if b.Owed {
				a.Owe(b.At, b.Amount)
			}
		}
	}
	s.limit()
}
