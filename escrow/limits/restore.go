package limits

import (
	"time"

	"github.com/llmgov/llmgov/escrow/limits/shape"
)

// WindowUse is what is booked of the limit of one Window.
type WindowUse struct {
	// Name is Window.Name.
	Name     string
	Bookings []shape.Booking
}

// WindowUses are what is booked of Windows: those of limits of the minute are left out, because who remembers calls remembers these.
func (s *Set) WindowUses() (list []WindowUse) {
	for k := firstWindow; k < Concurrency; k++ {
		if s.accounts[k] == nil {
			continue
		}
		if bookings := s.accounts[k].Bookings(); len(bookings) > 0 {
			list = append(list, WindowUse{s.Name(k), bookings})
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
			s.accounts[k].BookAt(b.At, b.Amount)
		}
		s.restored[k] = until
	}
}
