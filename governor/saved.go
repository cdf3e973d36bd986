package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/record"
)

// bookedWithin is how long after its beginning, at most, a call is booked. Calls of that time before a Saved count twice after a restart, because
// it is not known whether it has them.
const bookedWithin = 100 * time.Millisecond

// Saved copies the state of all pools and limits.
func (g *Governor) Saved() record.Saved {
	now := g.look()
	s := record.Saved{Limits: map[string]int64{}, Lengths: map[string]record.Lengths{}, At: now.Round(0).Add(-bookedWithin)}
	tb := g.table
	for _, p := range tb.inOrder.pools {
		for _, a := range p.shares {
			s.Shares = append(s.Shares, record.ShareState{Pool: p.name, Unit: a.Unit, Per: a.Per, State: a.split.State(now)})
			now = g.blink(stride-1, now) // after each, because that goes over all tenants
		}
		if p.slots.Limiter != nil {
			s.Limits[p.name] = p.slots.Limit()
		}
		if l := p.lessons(); len(l.Outputs) > 0 {
			s.Lengths[p.name] = l
		}
	}
	i := 0
	for v := range tb.each {
		for _, o := range v.made() {
			o.advance(now)
			if uses := o.set.WindowUses(); len(uses) > 0 {
				s.Windows = append(s.Windows, record.OwnerWindows{Tenant: o.owner, Pool: o.pool, Uses: uses})
			}
		}
		now = g.blink(i, now)
		i++
	}
	g.unlock()
	for i := range s.Shares {
		s.Shares[i].Absent = tb.absent(&s.Shares[i])
	}
	return s
}

// restoreWindows books what an earlier process had used of limits over long times.
func (tb *table) restoreWindows(now time.Time, past *record.Past) {
	until := onClock(now, past.At)
	for i := range past.Windows {
		w := &past.Windows[i]
		v := tb.view(now, w.Tenant, "")
		if v == nil {
			continue
		}
		v.own(now, "")
		for _, o := range v.made() {
			if o.pool == w.Pool {
				o.restore(now, usesOnClock(now, w.Uses), until)
			}
		}
	}
}

// usesOnClock are uses with their times on the clock of now.
func usesOnClock(now time.Time, list []limits.WindowUse) (uses []limits.WindowUse) {
	for _, u := range list {
		same := limits.WindowUse{Name: u.Name}
		for _, b := range u.Bookings {
			b.At = onClock(now, b.At)
			same.Bookings = append(same.Bookings, b)
		}
		uses = append(uses, same)
	}
	return uses
}

// restore books what an earlier process had used until a time, and owed. Shared limits keep the use for Recall; of debt others know for a
// window only.
func (o *ownLimits) restore(now time.Time, uses []limits.WindowUse, until time.Time) {
	o.advance(now)
	for i := range uses {
		o.set.Owe(&uses[i])
	}
	if o.sharing != nil {
		o.sharing.windows = uses
		o.sharing.until = until
		return
	}
	o.rebook(uses, until)
}

func (o *ownLimits) rebook(uses []limits.WindowUse, until time.Time) {
	for i := range uses {
		o.set.Restore(&uses[i], until)
	}
}
