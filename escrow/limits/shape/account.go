package shape

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// Slots is how finely a rolling window is cut.
const Slots = 120

// Account is the account of one limit. Amounts are booked at a time, or held while it is not known yet when their time
// begins. It is not safe for concurrent use.
type Account interface {
	// Advance brings the account to now. All other methods see it as of then.
	Advance(now time.Time)
	// Reshape changes the rule: its Amount and Burst, but neither Kind nor Per. Use counts on.
	Reshape(r Rule)
	// SetLimit changes how much of the Capacity may be used here. Use counts on.
	SetLimit(usable int64)
	// Limit is how much may be used, Used is how much counts, and Room is the difference; negative while there is debt.
	Limit() int64
	Used() int64
	Room() int64

	// Book counts an amount as of now, and Slot tells Correct where.
	Book(amount int64)
	Slot() int64
	// BookAt counts what was used at a time in the past, so far as it would count still.
	BookAt(at time.Time, amount int64)
	// Owe counts debt that there was at a time, less what has been paid off since.
	Owe(at time.Time, amount int64)
	// Bookings are what counts now, for BookAt and Owe of another account of the same rule. They are few, and may count a little longer there.
	Bookings() []Booking
	// Correct changes a booking. A refund does nothing for what counts no more; more than was booked counts as of now. What is
	// beyond the limit by that counts until it has been paid off at the limit's rate.
	Correct(slot, by int64)
	// Hold counts an amount at any time, until it is dropped.
	Hold(amount int64)
	Drop(amount int64)

	// FreeAt is when there is room for an amount if nothing else comes. It reports false if holds are in the way.
	FreeAt(amount int64) (at time.Time, known bool)
	// FullAt is when nothing booked counts any more.
	FullAt() time.Time
	// Ends is when all use stops counting at once; zero if use leaves little by little.
	Ends() time.Time
}

// Booking is an amount that is booked as of a time, or owed.
type Booking struct {
	At     time.Time
	Amount int64
	Owed   bool `json:",omitempty"`
}

// New returns the account of a rule of which nothing is used.
func New(now time.Time, r Rule) Account {
	switch r.Kind {
	case Fixed:
		f := newFixed(now, r)
		return newPaid(f.Ends(), r.Per, 1, f)
	case TokenBucket, GCRA:
		return newBucket(now, r)
	}
	slot := (r.Per + Slots - 1) / Slots // as the ledger's
	return newPaid(now.Add(slot), slot*Slots, Slots, &rolling{*escrow.NewLedgerOver(now, r.Amount, r.Per, Slots)})
}

// rolling is the account of a rolling window.
type rolling struct{ escrow.Ledger }

func (l *rolling) Reshape(Rule) {}

func (l *rolling) Owe(at time.Time, amount int64) { l.BookAt(at, amount) }

func (l *rolling) clone() window { return &rolling{*l.Clone()} }

func (l *rolling) Ends() time.Time { return time.Time{} }

// together is how many slots are one Booking.
const together = 4

func (l *rolling) Bookings() (list []Booking) {
	slots := 0
	l.Each(func(end time.Time, amount int64) {
		at := end.Add(-1)
		if slots%together == 0 {
			list = append(list, Booking{})
		}
		slots++
		last := &list[len(list)-1]
		last.At = at
		last.Amount += amount
	})
	return list
}
