package escrow

import "time"

// axisBooks is the pace and the account of one rolling axis.
//
// Usage is counted in one of three ways, and most of the work
// with an axis has a branch for each:
//
//   - cal: tokens and output under Production. Booked as they are produced, and planned.
//   - ledger, which is pace.ring as well: requests, input under Production, and all under
//     AdmitMax. A call is booked when it is dispatched, so the two count the same.
//   - ledger, apart from pace.ring: tokens, input and output under Settled. Held while a call
//     runs, booked when it ends.
type axisBooks struct {
	on     bool
	axis   Axis
	limit  int64 // units a Window
	pace   pace
	ledger *Ledger   // nil where there is a calendar
	cal    *calendar // nil where there is a ledger
	// era counts how often the books were begun anew. Calls that were booked in
	// others do not count in these.
	era uint32
}

// newAxis returns the books of an axis of which nothing has been taken.
func newAxis(now time.Time, k Axis, cfg Config) axisBooks {
	limit := cfg.Minute()[k]
	if limit == 0 {
		return axisBooks{}
	}
	a := axisBooks{on: true, axis: k, limit: limit}
	ring := NewLedger(now, limit, paceSlots)
	switch {
	case k == Requests, cfg.Accounting == AdmitMax, cfg.Accounting == Production && k == Input:
		a.ledger = ring
	case cfg.Accounting == Production:
		a.cal = newCalendar(now, limit)
	default:
		a.ledger = NewLedger(now, limit, paceSlots)
	}
	a.pace = newPace(now, limit, cfg.BurstOf(k), ring)
	a.pace.share(cfg.Shared)
	a.pace.loosen(a.apart())
	return a
}

// apart reports whether the pace has a ring of dispatches of its own, because what
// the limit counts moves while calls run. Read from that, the pace would throttle
// twice.
func (a *axisBooks) apart() bool { return a.ledger != a.pace.ring }

// hasRoom reports whether the account, whatever the pace says, has room for a call.
func (a *axisBooks) hasRoom(now time.Time, e *entry) bool {
	if a.cal != nil {
		atOnce, later := e.planned(a.axis)
		return a.cal.fits(now, atOnce*grain, later*grain, e.perSlot())
	}
	return a.ledger.Room() >= e.cost[a.axis]
}

// roomAt is when to look again for a call that has no room, or false when that
// depends on calls that run.
func (a *axisBooks) roomAt(e *entry) (time.Time, bool) {
	if a.cal != nil {
		return a.cal.ledger.startOf(a.cal.ledger.cur + 1), true
	}
	return a.ledger.FreeAt(e.cost[a.axis])
}

// used is the amount that counts against the limit: booked in the last Window, and held.
func (a *axisBooks) used() int64 {
	if a.cal != nil {
		return a.cal.used()
	}
	return a.ledger.Used()
}

// booked is the account itself, and how many of its units make one of the axis.
func (a *axisBooks) booked() (l *Ledger, unit int64) {
	if a.cal != nil {
		return a.cal.ledger, grain
	}
	return a.ledger, 1
}

// bookAt books c as if it had been dispatched, and produced, at a time in the past.
func (a *axisBooks) bookAt(at time.Time, c int64) {
	a.pace.ring.BookAt(at, c)
	if a.apart() {
		l, unit := a.booked()
		l.BookAt(at, c*unit)
	}
}

// resize changes the limit and the burst. Bookings stay.
func (a *axisBooks) resize(limit int64, cfg Config) {
	a.limit = limit
	a.pace.share(cfg.Shared)
	a.pace.resize(limit, cfg.BurstOf(a.axis))
	a.pace.loosen(a.apart()) // by parts of the new limit
	a.pace.ring.limit = limit
	l, unit := a.booked()
	l.limit = limit * unit
}

// inherit books in a the counts of other books of its axis, and, as of now, the amounts
// held or planned there.
func (a *axisBooks) inherit(old *axisBooks) {
	l, unit := old.booked()
	book := func(slot, c int64) { a.bookAt(l.startOf(slot), (c+unit-1)/unit) }
	for slot := l.cur; slot > l.cur-int64(len(l.slots)); slot-- {
		if c := *l.at(slot); c > 0 {
			book(slot, c)
		}
	}
	coming := l.held
	if old.cal != nil {
		coming = old.cal.ahead
	}
	book(l.cur, coming)
}
