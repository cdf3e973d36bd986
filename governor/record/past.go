package record

import (
	"maps"
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// Past is the memory of a journal of calls that still count. Read the records of the last minute,
// and those of calls that ran longer, in their order. A call whose end is missing is assumed to
// have taken its booked cost, and to have ended with the process.
type Past struct {
	// Uses is the usage of budgets.
	Uses *Uses
	// Saved is the state of pools that no record has. It may be older than Uses.
	Saved
	// Ended are the calls of the last minutes.
	Ended []Record
	// Last is the last call's number in the journal.
	Last uint64

	now     time.Time
	lived   time.Time // the latest that the process may have lived
	running map[uint64]Record
	cut     int
}

// NewPast returns a past in which nothing happened. now is when it is read.
func NewPast(now time.Time, zone *time.Location) *Past {
	return &Past{Uses: NewUses(zone), now: now.Round(0), lived: now.Round(0), running: map[uint64]Record{}}
}

// LivedUntil says that the process whose past this is had ended by that time at the latest. The
// default is now.
func (p *Past) LivedUntil(at time.Time) {
	at = at.Round(0)
	if at.Before(p.lived) {
		p.lived = at
	}
}

// Read adds a record, but for its usage of budgets, which is for Uses.
func (p *Past) Read(r Record) {
	p.Last = max(p.Last, r.Call)
	r.Booked.split()
	r.Took.split()
	switch r.Kind {
	case Admitted, Running:
		p.running[r.Call] = r
	case Grown:
		if began, ok := p.running[r.Call]; ok {
			began.Grow(&r)
			p.running[r.Call] = began
		}
	case Ended:
		delete(p.running, r.Call)
		if p.now.Sub(r.Ended) <= 2*escrow.Window || !p.At.IsZero() && r.Ended.After(p.At) {
			p.Ended = append(p.Ended, r)
		}
	}
}

// Cut ends the calls that were in flight when the journal broke off, and returns the records of
// their ends.
func (p *Past) Cut() []Record {
	var cut []Record
	for _, call := range slices.Sorted(maps.Keys(p.running)) {
		r := p.running[call]
		r.Kind = Ended
		r.Ended = p.lived
		if r.Began.After(p.lived) {
			r.Ended = r.Began
		}
		r.Took = r.Booked
		cut = append(cut, r)
	}
	for _, r := range cut {
		p.Read(r)
	}
	p.cut += len(cut)
	return cut
}

// CutOff is how many calls were in flight when the journal broke off.
func (p *Past) CutOff() int { return p.cut }

// pastSlot is the time over which Bookings add up costs.
const pastSlot = 250 * time.Millisecond

// Bookings are the costs of a pool's calls in the order of time, each counted a little longer than it would be by a governor that begins with the past.
func (p *Past) Bookings(pool string, accounting escrow.Accounting) []escrow.Booking {
	sums := map[int64]escrow.Cost{} // by slot
	book := func(at time.Time, c escrow.Cost) {
		slot := at.UnixMilli() / pastSlot.Milliseconds()
		sum := sums[slot]
		for k := range sum {
			sum[k] += c[k]
		}
		sums[slot] = sum
	}
	for i := range p.Ended {
		r := &p.Ended[i]
		if r.Pool != pool || p.now.Sub(r.Ended) > 2*escrow.Window {
			continue
		}
		first, late := r.Costs(accounting)
		book(r.Began, first)
		book(r.Ended, late)
	}
	list := []escrow.Booking{}
	for _, slot := range slices.Sorted(maps.Keys(sums)) {
		end := time.UnixMilli((slot + 1) * pastSlot.Milliseconds())
		for k, cost := range sums[slot] {
			if cost != 0 {
				list = append(list, escrow.Booking{End: end, Axis: escrow.Axis(k), Cost: cost})
			}
		}
	}
	return list
}

// PastState is a Past as a value that can be written down.
type PastState struct {
	Uses []OwnerUse
	Saved
	Ended []Record
	Last  uint64
}

// OwnerUse is the usage of one Owner.
type OwnerUse struct {
	Owner
	Use
}

// State is a past in which no call runs any more; see Cut.
func (p *Past) State() *PastState {
	s := &PastState{Saved: p.Saved, Ended: slices.Clip(p.Ended), Last: p.Last}
	for _, who := range p.Uses.Owners() {
		s.Uses = append(s.Uses, OwnerUse{who, p.Uses.rows[who].Use})
	}
	return s
}

// Past returns the past of which s is the state, as read at now.
func (s *PastState) Past(now time.Time, zone *time.Location) *Past {
	p := NewPast(now, zone)
	p.Saved = s.Saved
	p.Ended = slices.Clip(s.Ended)
	p.Last = s.Last
	for _, u := range s.Uses {
		p.Uses.Set(u.Owner, u.Use)
	}
	return p
}
