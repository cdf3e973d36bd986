package shape

import "time"

// fixed is the account of windows by the clock. They begin at multiples of their length since 1970, UTC.
type fixed struct {
	per    time.Duration
	limit  int64
	window int64 // the number of the present one
	booked int64 // in the present window
	held   int64
}

func newFixed(now time.Time, r Rule) *fixed {
	f := &fixed{per: r.Per, limit: r.Amount}
	f.window = f.windowOf(now)
	return f
}

// windowOf is the number of the window that a time is in.
func (f *fixed) windowOf(at time.Time) int64 { return at.UnixMilli() / f.per.Milliseconds() }

// Advance begins the window of now. If the clock is put back the present one goes on.
func (f *fixed) Advance(now time.Time) {
	if at := f.windowOf(now); at > f.window {
		f.window = at
		f.booked = 0
	}
}

func (f *fixed) Reshape(Rule) {}

func (f *fixed) SetLimit(usable int64) { f.limit = usable }

func (f *fixed) Limit() int64 { return f.limit }

func (f *fixed) Used() int64 { return f.booked + f.held }

func (f *fixed) Room() int64 { return f.limit - f.booked - f.held }

func (f *fixed) Book(amount int64) { f.booked += amount }

func (f *fixed) Slot() int64 { return f.window }

func (f *fixed) BookAt(at time.Time, amount int64) {
	if f.windowOf(at) >= f.window {
		f.booked += amount
	}
}

func (f *fixed) Owe(at time.Time, amount int64) { f.BookAt(at, amount) }

func (f *fixed) Booked() int64 { return f.booked }

func (f *fixed) clone() window {
	same := *f
	return &same
}

func (f *fixed) Bookings() []Booking {
	if f.booked <= 0 {
		return nil
	}
	return []Booking{{At: f.startOf(f.window), Amount: f.booked}}
}

func (f *fixed) Correct(slot, by int64) {
	if by > 0 || slot == f.window {
		f.booked += by
	}
}

func (f *fixed) Hold(amount int64) { f.held += amount }

func (f *fixed) Drop(amount int64) { f.held -= amount }

func (f *fixed) FreeAt(amount int64) (time.Time, bool) {
	if f.Room() >= amount {
		return f.startOf(f.window), true
	}
	return f.Ends(), f.held+amount <= f.limit
}

func (f *fixed) FullAt() time.Time { return f.Ends() }

func (f *fixed) Ends() time.Time { return f.startOf(f.window + 1) }

func (f *fixed) startOf(window int64) time.Time { return time.UnixMilli(window * f.per.Milliseconds()) }
