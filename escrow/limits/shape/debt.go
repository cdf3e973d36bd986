package shape

import "time"

// paid is a window in which use beyond the limit is owed: it counts at once, and is booked only as the limit gets room for it. So it
// is paid off at the limit's rate, however much it is, and an overrun that is repeated does not become the real rate. A bucket needs
// none of this, since it drains at the limit's rate anyway.
type paid struct {
	Account
	step time.Duration // after which the window may have room again
	per  time.Duration // how long it counts what is booked
	now  time.Time
	owed int64
	held int64
}

func newPaid(now time.Time, step, per time.Duration, window Account) *paid {
	return &paid{Account: window, step: step, per: per, now: now}
}

// Advance pays in each step what has room then.
func (p *paid) Advance(now time.Time) {
	for p.owed > 0 && p.Limit() > 0 && now.Sub(p.now) > p.step {
		p.now = p.now.Add(p.step)
		p.Account.Advance(p.now)
		p.pay()
	}
	if now.After(p.now) {
		p.now = now
	}
	p.Account.Advance(now)
	p.pay()
}

// pay books what is owed, so far as there is room.
func (p *paid) pay() {
	if part := min(p.owed, p.Account.Room()); part > 0 {
		p.Book(part)
		p.owed -= part
	}
}

func (p *paid) Used() int64 { return p.Account.Used() + p.owed }

func (p *paid) Room() int64 { return p.Account.Room() - p.owed }

// Correct has what was used beyond the limit owed.
func (p *paid) Correct(slot, by int64) {
	if by > 0 {
		over := by - min(by, max(0, p.Account.Room()))
		p.owed += over
		by -= over
	}
	p.Account.Correct(slot, by)
	p.pay()
}

func (p *paid) Hold(amount int64) {
	p.held += amount
	p.Account.Hold(amount)
}

func (p *paid) Drop(amount int64) {
	p.held -= amount
	p.Account.Drop(amount)
}

// Bookings has what is owed as of now.
func (p *paid) Bookings() []Booking {
	list := p.Account.Bookings()
	if p.owed > 0 {
		list = append(list, Booking{p.now, p.owed})
	}
	return list
}

// FreeAt is known of debt, too: in each window as much is paid as the limit has beside what is held, at the times at which it left the
// window before.
func (p *paid) FreeAt(amount int64) (at time.Time, known bool) {
	lack := amount - p.Room()
	each := p.Limit() - p.held
	room := p.Account.Room()
	if each <= 0 || lack <= 0 || amount > each {
		return p.Account.FreeAt(room + lack)
	}
	booked := each - room
	windows := int64(0)
	if later := lack - booked; later > 0 {
		windows = (later-1)/each + 1
		lack = later - (windows-1)*each + max(0, booked-each)
	}
	at, _ = p.Account.FreeAt(room + lack)
	return p.after(at, windows), true
}

func (p *paid) FullAt() time.Time {
	windows := int64(0)
	if p.owed > 0 {
		windows = (p.owed-1)/max(1, p.Limit()) + 1
	}
	return p.after(p.Account.FullAt(), windows)
}

// after is so many windows later; with much debt, or a small limit, they would take for ever.
func (p *paid) after(at time.Time, windows int64) time.Time {
	return at.Add(time.Duration(min(windows, int64(MaxPer/p.per))) * p.per)
}
