package federation

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// Pressed is how much a pool lacks at now, after a Pump.
func Pressed(p *escrow.Pool, now time.Time) Pressure {
	return Pressure{Waiting: p.Demand(escrow.Root).WaitingUnits, Head: p.Head(), Holding: holdings(p, now)}
}

// Survey is a Report of all that the pool itself knows as of now. Limits, Burst and
// Reserve are for its owner to fill in. tree is all of the pool's, parents first; their
// demands are filled in.
func Survey(p *escrow.Pool, now time.Time, tree []Claim) *Report {
	r := &Report{Holding: holdings(p, now), Tree: make([]Claim, len(tree)), Largest: p.Largest()}
	r.Held = p.Bookings(now, func(b escrow.Booking) { r.Bookings = append(r.Bookings, b) })
	for k := range r.Spent {
		r.Spent[k] = p.Spent(escrow.Axis(k))
		r.Largest[k] = max(r.Largest[k], p.Head()[k])
	}
	for i, c := range tree {
		c.Demand = p.Demand(c.ID)
		r.Tree[i] = c
	}
	r.Waiting = p.Demand(escrow.Root).WaitingUnits
	return r
}

func holdings(p *escrow.Pool, now time.Time) (h [axes]Holding) {
	for k := range h {
		a, left := p.Allowed(now, escrow.Axis(k))
		h[k] = Holding{left, a.Rate, a.Until}
	}
	return h
}
