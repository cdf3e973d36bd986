package escrow

import (
	"slices"
	"time"
)

// Ledger is the exact account of one rolling limit, in whatever unit the limit is
// in: tokens, requests, or grains of tokens. It counts two things: the amount that
// was booked, by slot of time, for one window; and the held amount, which belongs
// to no slot yet and counts at every instant until it is booked or dropped.
//
// The window, a [Window] for most, is cut into n slots and n+1 of them are counted, so that the sum
// covers every interval of its length that ends in the current slot: a
// ledger at its limit has not been over it at any instant of the last window.
// That costs one slot in n+1 of the limit, when saturated.
//
// A Ledger is not safe for concurrent use.
type Ledger struct {
	limit  int64
	epoch  time.Time
	slot   time.Duration // length of one slot
	slots  []int64       // ring of n+1; the current one's place is empty
	cur    int64         // absolute number of the current slot
	fresh  int64         // booked in the current slot: bookings touch no ring, which may be cold
	booked int64         // sum of slots
	held   int64
}

// NewLedger returns an empty ledger of limit units a Window, counted in n
// slots. It panics unless n divides a minute in microseconds (60, 120, 240, 600).
func NewLedger(now time.Time, limit int64, n int) *Ledger {
	if n < 1 || int64(Window/time.Microsecond)%int64(n) != 0 {
		panic("escrow: BUG: slots do not divide the window")
	}
	return NewLedgerOver(now, limit, Window, n)
}

// NewLedgerOver is NewLedger for any window. If n does not divide it, the account covers up to n nanoseconds more.
func NewLedgerOver(now time.Time, limit int64, window time.Duration, n int) *Ledger {
	slot := (window + time.Duration(n) - 1) / time.Duration(n)
	return &Ledger{limit: limit, epoch: now, slot: slot, slots: make([]int64, n+1)}
}

// Advance ages out the bookings that have left the window at now. Time never runs backwards:
// an earlier now changes nothing.
func (l *Ledger) Advance(now time.Time) {
	if !l.turns(now) {
		return
	}
	target := int64(now.Sub(l.epoch) / l.slot)
	if target-l.cur > int64(len(l.slots)) {
		clear(l.slots)
		l.fresh = 0
		l.booked = 0
		l.cur = target
		return
	}
	for l.cur < target {
		l.turn()
	}
}

// turns reports whether the slot after the current one has begun.
func (l *Ledger) turns(now time.Time) bool {
	return now.Sub(l.epoch) >= time.Duration(l.cur+1)*l.slot
}

// turn enters the next slot.
func (l *Ledger) turn() {
	if l.fresh != 0 { // most slots are empty, and what is not written to need not be in memory
		*l.place(l.cur) = l.fresh
		l.fresh = 0
	}
	l.cur++
	leaves := l.place(l.cur)
	if *leaves != 0 {
		l.booked -= *leaves
		*leaves = 0
	}
}

// Limit is the most that may be used in one window.
func (l *Ledger) Limit() int64 { return l.limit }

// SetLimit changes the limit. Past usage counts on.
func (l *Ledger) SetLimit(limit int64) { l.limit = limit }

// Used is the amount that counts against the limit: booked in the last window, and held.
func (l *Ledger) Used() int64 { return l.booked + l.held }

// Booked is the sum of bookings in the last window, without holds.
func (l *Ledger) Booked() int64 { return l.booked }

// Clone is a ledger with the same bookings and holds, and of its own.
func (l *Ledger) Clone() *Ledger {
	same := *l
	same.slots = slices.Clone(l.slots)
	return &same
}

// Room is the amount that may still be taken; negative while there is debt.
func (l *Ledger) Room() int64 { return l.limit - l.booked - l.held }

// Slot is the number of the current slot, for a later Correct of a booking of now.
func (l *Ledger) Slot() int64 { return l.cur }

// Hold sets c aside. It does not check the limit: the caller has.
func (l *Ledger) Hold(c int64) { l.held += c }

// Drop gives back c of the held amount.
func (l *Ledger) Drop(c int64) { l.held -= c }

// Book counts c in the current slot.
func (l *Ledger) Book(c int64) {
	l.fresh += c
	l.booked += c
}

// maxBooked is where a ledger stops counting usage from elsewhere, so that no
// number of bookings overflows it.
const maxBooked = int64(1) << 61

// BookAt counts c in the slot of a time in the past, if that slot still counts. A
// time to come counts as now. It does not check the limit, because the usage is a fact.
func (l *Ledger) BookAt(at time.Time, c int64) {
	since := at.Sub(l.epoch)
	slot := int64(since / l.slot)
	if since%l.slot < 0 {
		slot-- // rounded down, also before the epoch
	}
	slot = min(slot, l.cur)
	if l.counts(slot) {
		c = min(c, max(0, maxBooked-l.booked))
		*l.at(slot) += c
		l.booked += c
	}
}

// Correct changes the bookings of slot by d (see Slot). A refund (d < 0) of a slot
// that has left the window does nothing, for it no longer counts; what was
// used beyond a booking (d > 0) is counted now, for it is now that it is known.
func (l *Ledger) Correct(slot, d int64) {
	if d > 0 {
		l.Book(d)
		return
	}
	if slot <= l.cur && l.counts(slot) {
		*l.at(slot) += d
		l.booked += d
	}
}

// FreeAt is the earliest time at which c will fit if nothing else is booked, to a
// slot. It reports false when holds stand in the way, which leave at no
// known time.
func (l *Ledger) FreeAt(c int64) (time.Time, bool) {
	room := l.Room()
	for i := int64(0); i < int64(len(l.slots)); i++ {
		if room >= c {
			return l.startOf(l.cur + i), true
		}
		room += *l.at(l.cur + 1 + i - int64(len(l.slots)))
	}
	return l.startOf(l.cur + int64(len(l.slots))), room >= c
}

// FullAt is when the last booking leaves the window; when there is none, the start of
// the current slot.
func (l *Ledger) FullAt() time.Time {
	for i := int64(0); i < int64(len(l.slots)); i++ {
		if *l.at(l.cur - i) != 0 {
			return l.startOf(l.cur - i + int64(len(l.slots)))
		}
	}
	return l.startOf(l.cur)
}

// Each calls a function with what is booked in each slot that counts, the oldest first, and with when the slot ends. Empty ones are left out.
func (l *Ledger) Each(do func(end time.Time, booked int64)) {
	for slot := l.cur - int64(len(l.slots)) + 1; slot <= l.cur; slot++ {
		if booked := *l.at(slot); booked != 0 {
			do(l.startOf(slot+1), booked)
		}
	}
}

// startOf is when a slot began, or will begin.
func (l *Ledger) startOf(slot int64) time.Time {
	return l.epoch.Add(time.Duration(slot) * l.slot)
}

// counts reports whether a slot, of the past, is still in the window.
func (l *Ledger) counts(slot int64) bool { return slot > l.cur-int64(len(l.slots)) }

// at is where a slot is counted.
func (l *Ledger) at(slot int64) *int64 {
	if slot == l.cur {
		return &l.fresh
	}
	return l.place(slot)
}

// place is where a slot lies in the ring. Slots before the epoch have negative numbers.
func (l *Ledger) place(slot int64) *int64 {
	i := slot % int64(len(l.slots))
	if i < 0 {
		i += int64(len(l.slots))
	}
	return &l.slots[i]
}
