package shape

import (
	"math"
	"time"

	"github.com/llmgov/llmgov/internal/lib/muldiv"
)

// window is an account whose use counts for a time, and then no more.
type window interface {
	Account
	// Booked is the use that counts, without what is held.
	Booked() int64
	// clone is a window with the same use, to look ahead with.
	clone() window
}

// paid is a window in which use beyond the limit is owed: it counts at once, and drains at the rate that the limit has beside what is
// booked. Both together use no more than the limit, so an overrun that is repeated does not become the real rate. A bucket needs none of
// this, since it drains at the limit's rate anyway.
type paid struct {
	window
	step  time.Duration // at whose end a part of what is owed drains
	steps int64         // in a window
	end   time.Time     // of the present step
	owed  int64
	rest  int64 // has drained beside whole units, in parts of a unit: so many as there are steps
	under int64 // the least limit under which any of it came to be owed
}

func newPaid(end time.Time, per time.Duration, steps int64, w window) *paid {
	return &paid{window: w, step: per / time.Duration(steps), steps: steps, end: end}
}

// Advance drains at the end of each step what the limit had beside what was booked then.
func (p *paid) Advance(now time.Time) {
	for p.owed > 0 && p.Limit() > 0 && !now.Before(p.end) {
		if p.Booked() == 0 {
			whole := p.step * time.Duration(p.steps)
			windows := min(int64(now.Sub(p.end)/whole), p.owed/p.Limit())
			p.owed -= windows * p.Limit()
			p.end = p.end.Add(time.Duration(windows) * whole)
		}
		p.drain()
	}
	if late := now.Sub(p.end); late >= 0 {
		p.end = now.Add(p.step - late%p.step)
	}
	p.window.Advance(now)
}

func (p *paid) drain() {
	p.rest += max(0, p.Limit()-p.Booked())
	p.owed -= min(p.owed, p.rest/p.steps)
	p.rest %= p.steps
	p.window.Advance(p.end)
	p.end = p.end.Add(p.step)
}

// SetLimit books what was owed because too small a part of the limit was here: it is not beyond the limit of all, and counts like other use.
func (p *paid) SetLimit(usable int64) {
	p.window.SetLimit(usable)
	if usable > p.under {
		p.bookOwed(p.owed)
		p.under = usable
	}
}

// bookOwed books up to an amount of what is owed, so far as it fits.
func (p *paid) bookOwed(most int64) {
	if fits := min(p.owed, most, p.window.Room()); fits > 0 {
		p.owed -= fits
		p.Book(fits)
	}
}

func (p *paid) Used() int64 { return p.window.Used() + p.owed }

func (p *paid) Room() int64 { return p.window.Room() - p.owed }

// Correct has what was used beyond the limit owed. So much as fits after all, because another call takes less, is booked.
func (p *paid) Correct(slot, by int64) {
	if by > 0 {
		if p.owed == 0 {
			p.rest = 0
			p.under = math.MaxInt64
		}
		p.under = min(p.under, p.Limit())
		over := max(0, by-max(0, p.Limit()-p.Booked()-p.owed))
		p.owed += over
		p.window.Correct(slot, by-over)
		return
	}
	booked := p.Booked()
	p.window.Correct(slot, by)
	p.bookOwed(booked - p.Booked())
}

// Owe takes the first window after a time for a full one, in which nothing drained.
func (p *paid) Owe(at time.Time, amount int64) {
	per := p.step * time.Duration(p.steps)
	drained := muldiv.Floor(p.Limit(), int64(max(0, p.end.Sub(at)-per)), int64(per))
	p.under = math.MaxInt64 // as far as is known it was beyond the limit of all
	p.owed += max(0, amount-drained)
}

// Bookings has what is owed as of the end of the present step.
func (p *paid) Bookings() []Booking {
	list := p.window.Bookings()
	if p.owed > 0 {
		list = append(list, Booking{At: p.end, Amount: p.owed, Owed: true})
	}
	return list
}

func (p *paid) FreeAt(amount int64) (at time.Time, known bool) {
	held := p.window.Used() - p.Booked()
	switch left := p.Limit() - held - amount; {
	case p.owed == 0 || p.Room() >= amount:
		return p.window.FreeAt(amount)
	case left < 0:
		return p.FullAt(), false
	default:
		return p.drainedTo(left), true
	}
}

func (p *paid) FullAt() time.Time {
	if p.owed == 0 {
		return p.window.FullAt()
	}
	return p.drainedTo(0)
}

// drainedTo is when no more than that counts beside what is held; with much debt, or a small limit, it would take for ever.
func (p *paid) drainedTo(most int64) time.Time {
	ahead := *p
	ahead.window = p.clone()
	for ahead.Booked() > 0 {
		at := ahead.end
		ahead.Advance(at)
		if ahead.Booked()+ahead.owed <= most {
			return at
		}
	}
	steps := muldiv.Ceil(ahead.owed-most, p.steps, max(1, p.Limit()))
	return ahead.end.Add(time.Duration(min(steps, int64(MaxPer/p.step))-1) * p.step)
}
