package governor

import (
	"context"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/terms"
)

// walk is one call on its way through its limits: those of its tenant, then budgets, then the pool.
type walk struct {
	g     *Governor
	ctx   context.Context
	req   Request
	began time.Time
	now   time.Time // moves on as the call waits

	spot // as of the table by which the call goes
	may  waits

	holds *holds
	lease Lease // once the call is admitted

	upstream string // where it is admitted, if that is told
}

// decide takes a call through its limits. It cuts the amounts of the request to their bounds.
func (w *walk) decide() *Refusal {
	w.req.Input = bounded(w.req.Input)
	w.req.Output = bounded(w.req.Output)
	w.now = w.began
	w.g.asked++
	if w.g.detailed {
		w.req.call = w.g.asked
		w.g.events.add(Event{Kind: EventAsked, At: w.began, Call: w.req.call, Request: w.req.Record(), Upstreams: w.g.upstreamsOf(&w.req)})
	}
	again := true
	var rej *Refusal
	for again {
		rej, again = w.once()
	}
	waited := w.now.Sub(w.began)
	switch {
	case rej == nil:
		w.lease.Waited = waited
		if w.g.detailed {
			w.upstream = w.lease.upstream()
		}
	case w.g.detailed && w.g.line == nil && rej.Reason == ReasonCancelled:
		w.g.events.add(Event{Kind: EventLeft, At: w.began.Add(waited), Call: w.req.call})
	}
	inPool(rej, w.req.Pool)
	inPool(w.lease.Would, w.req.Pool)
	return after(rej, waited)
}

// justAsked is how old the time at which a call asks may be. It leaves time to book the call within bookedWithin of that.
const justAsked = bookedWithin / 2

// beginning is when a call asks: as its caller says, if that is of now by the machine's clock.
func (g *Governor) beginning(req *Request) time.Time {
	if !req.Asked.IsZero() {
		if age := time.Since(req.Asked); age >= 0 && age <= justAsked {
			return req.Asked
		}
	}
	return g.clock.Now()
}

// once takes the call through its limits. again says that it has to be tried anew: its seat was given
// up by a new table, or it waited for a grant of a budget, or for a time.
func (w *walk) once() (rej *Refusal, again bool) {
	tb := w.g.table
	w.spot = tb.find(w.now, &w.req)
	if w.tenant == nil {
		return refuseUnknown(w.req.Tenant, tb.tenants[terms.OwnerOf(w.req.Tenant)] == nil), false
	}
	defer w.tenant.passed()
	if w.g.Draining() {
		return refuseDraining(w.req.Tenant), false
	}
	if w.req.Listed == nil {
		w.req.Listed = w.pool.names
	}
	if w.req.BudgetsOnly {
		return w.commit(), false
	}
	if until := w.began.Add(w.req.Pause); w.now.Before(until) {
		return w.pause(until)
	}
	w.may = w.tenant.waitsOf(w.pool, &w.req, w.began)
	w.open(w.pool.weights.holdCost(&w.req))
	if w.req.Told {
		w.bound()
	}
	rej, again = w.enterTenant()
	if rej != nil || again {
		return rej, again
	}
	if w.g.journal != nil {
		w.g.calls++
		w.holds.call = w.g.calls
	}
	w.holds.price = w.req.Price
	return w.enterPool()
}

// open gives the call its holds, with the cost that it holds of limits: nothing if it is over already. leave takes it back.
func (w *walk) open(c limits.Cost) {
	if w.req.Forced {
		c = limits.Cost{}
	}
	w.holds = w.g.open(w.now, w.spot, c, w.tenant.cfg.Shadow || w.req.Forced)
	w.holds.free = w.tenant.cfg.Shadow
	w.holds.asked = w.req.call
}

// leave gives everything back that the call holds of limits and budgets. Its holds of the pool's
// budgets have to be given back before.
func (w *walk) leave() { w.g.leave(w.now, w.holds, limits.Cost{}, Spend{}, 0) }

// enterTenant holds the call's cost of its tenant's own limits and budgets, and of those above it if it
// is a team. again says that it has waited for a grant of a budget.
func (w *walk) enterTenant() (rej *Refusal, again bool) {
	spends := w.g.journal != nil || len(w.pool.cfg.Budgets) > 0 || w.tenant.budgeted
	spend := Spend{}
	if w.g.consults(w.pool) && !w.req.Forced { // the store lets it in, and books its budgets, too
		if spends {
			spend = w.holds.belief.spend(w.pool.expected(w.tenant, &w.req, false))
		}
		rej = w.enterAsking(spend)
		if rej != nil {
			w.leave()
		}
		return rej, false
	}
	rej = w.enter()
	if rej != nil || !spends {
		return rej, false
	}
	spend = w.holds.belief.spend(w.pool.expected(w.tenant, &w.req, false))
	rej, short := w.g.spendFrom(w.holds, w.now, spend)
	if rej != nil {
		w.leave()
		return rej, short && w.now.Before(later(w.may.until, w.may.least))
	}
	return nil, false
}

// enter holds the call's cost of every link of its chain, all or none. If one has no room the call waits
// in the line there, not in the pool's queue, and blocks no other tenant; its costs on the other
// limits are meanwhile held, not booked.
func (w *walk) enter() *Refusal {
	b := w.holds
	var h limits.Hold
	for i := range b.chain {
		k := &b.chain[i]
		place, rej := k.join(w.now, b, w.may, w.req.Claim, &h)
		if place != nil {
			b.suspend(w.now)
			for _, later := range b.chain[i+1:] {
				later.own.askAhead(w.now, b.cost)
			}
			h, rej = w.standInLine(k, place)
		}
		if b.shadow {
			b.note(rej)
		} else if rej != nil {
			w.leave()
			return rej
		}
		b.holds = append(b.holds, h)
	}
	b.resume(w.now)
	return nil
}

// standInLine waits until a call is first in line and fits.
func (w *walk) standInLine(k *link, place *inLine) (limits.Hold, *Refusal) {
	o := k.own
	why := woken
	deadline := later(w.may.until, place.least)
	w.now = w.g.clock.Now()
	for {
		o.advance(w.now)
		ends := why == gone || why == draining || why == lostAll
		if h, ok := o.take(place, !ends); ok {
			return h, nil
		}
		if ends || !w.now.Before(deadline) {
			rej := o.giveUp(w.now, k, place, ends)
			because(rej, why)
			return limits.Hold{}, rej
		}
		next := o.set.LookAgain(&place.place, deadline)
		why = w.park(&place.waiter, next)
	}
}
