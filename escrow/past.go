package escrow

import "time"

// Remember books what a call took at a time in the past, so that a pool which is
// begun anew counts what the provider counts still. c is what was used: pace and
// ledger count it as if it had been dispatched, or produced, at that time. What
// has left the Window by now counts nothing; a time to come counts as now.
//
// The pace begins as it does in any new pool: with a second of the rate, however
// long it was idle before.
func (p *Pool) Remember(now, at time.Time, c Cost) {
	p.advance(now)
	for k := range p.axes {
		a := &p.axes[k]
		if !a.on || c[k] <= 0 {
			continue
		}
		used := min(c[k], MaxLimit)
		a.pace.ring.BookAt(at, used)
		switch {
		case a.cal != nil:
			a.cal.ledger.BookAt(at, used*grain)
		case a.ledger != a.pace.ring:
			a.ledger.BookAt(at, used)
		}
	}
}

// maxBooked is where a ledger stops counting what comes from elsewhere, so that no
// number of bookings overflows it.
const maxBooked = int64(1) << 61

// BookAt counts c in the slot of a time in the past, if that slot still counts. A
// time to come counts as now. Of a ledger that is at its limit, as of any other,
// Room may be negative afterwards.
func (l *Ledger) BookAt(at time.Time, c int64) {
	since := at.Sub(l.epoch)
	slot := int64(since / l.slot)
	if since%l.slot < 0 {
		slot-- // rounded down, also before the epoch
	}
	n := int64(len(l.slots))
	slot = min(slot, l.cur)
	if slot <= l.cur-n {
		return
	}
	c = min(c, maxBooked-l.booked)
	l.slots[((slot%n)+n)%n] += c
	l.booked += c
}
