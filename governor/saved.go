package governor

import (
	"encoding/json"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
)

// Saved is the state of pools, and of limits over long times, that no Record has. A process saves it now and then, for the next one.
type Saved struct {
	// Shares is how pools' budgets stand between their tenants.
	Shares []ShareState
	// Limits are the adaptive limits that were found, by pool.
	Limits map[string]int64
	// Windows is what is used of tenants' limits over other times than a minute, and what is owed of all, as of At.
	Windows []OwnerWindows
	At      time.Time
	// Lengths are what pools have learned of how long calls get, by pool.
	Lengths map[string]Lengths
	// Estimates are what the governor's owner has learned of calls, which it alone reads.
	Estimates json.RawMessage
	// Upstreams are what its owner has learned of upstreams' limits.
	Upstreams json.RawMessage
}

// OwnerWindows is what is used of the own limits of a tenant: over all pools, or in one.
type OwnerWindows struct {
	Tenant string
	Pool   string `json:",omitempty"`
	Uses   []limits.WindowUse
}

// bookedWithin is how long after its beginning, at most, a call is booked. Calls of that time before a Saved count twice after a restart, because
// it is not known whether it has them.
const bookedWithin = 100 * time.Millisecond

// Saved copies the state of all pools and limits.
func (g *Governor) Saved() Saved {
	now := g.look()
	s := Saved{Limits: map[string]int64{}, Lengths: map[string]Lengths{}, At: now.Round(0).Add(-bookedWithin)}
	tb := g.table
	for _, p := range tb.inOrder.pools {
		for _, a := range p.shares {
			s.Shares = append(s.Shares, ShareState{Pool: p.name, Unit: a.Unit, Per: a.Per, State: a.split.State(now)})
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
				s.Windows = append(s.Windows, OwnerWindows{o.owner, o.pool, uses})
			}
		}
		now = g.blink(i, now)
		i++
	}
	g.unlock()
	for i := range s.Shares {
		s.Shares[i].addAbsent(tb)
	}
	return s
}

// restoreWindows books what an earlier process had used of limits over long times.
func (tb *table) restoreWindows(now time.Time, past *Past) {
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
				o.restore(now, w.onClock(now), until)
			}
		}
	}
}

// onClock converts the times of a use to the clock of now.
func (w *OwnerWindows) onClock(now time.Time) (uses []limits.WindowUse) {
	for _, u := range w.Uses {
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
