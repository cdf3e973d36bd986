package federation

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// firstOf are the amounts of the first pair of axes.
func firstOf(c escrow.Cost) Amounts { return Amounts(c[:axes]) }

// Pressed is how much a pool lacks at now, after a Pump.
func Pressed(p *escrow.Pool, now time.Time) Pressure {
	return Pressure{Waiting: firstOf(p.Demand(escrow.Root).WaitingUnits), Head: firstOf(p.Head()), Holding: holdings(p, now)}
}

// Survey fills in all that the pool itself knows as of now. Limits, Burst, Reserve and
// Tree are for its owner to fill in.
func (r *Report) Survey(p *escrow.Pool, now time.Time) {
	r.Holding = holdings(p, now)
	r.Largest = firstOf(p.Largest())
	r.Held = firstOf(p.Bookings(now, func(b escrow.Booking) { r.Bookings = append(r.Bookings, b) }))
	r.Refundable = firstOf(p.Refundable())
	for k := range r.Spent {
		r.Spent[k] = p.Spent(escrow.Axis(k))
		r.Largest[k] = max(r.Largest[k], p.Head()[k])
	}
}

// Asked are claims with the demand of each now.
func Asked(p *escrow.Pool, claims []Claim) []Claim {
	out := slices.Clone(claims)
	for i := range out {
		out[i].Demand = p.Demand(out[i].ID)
	}
	return out
}

func holdings(p *escrow.Pool, now time.Time) (h [axes]Holding) {
	for k := range h {
		a, left := p.Allowed(now, escrow.Axis(k))
		h[k] = Holding{left, a.Rate, p.Refunded(escrow.Axis(k)), a.Until}
	}
	return h
}
