package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/placement"
)

// How a call goes through its pool: its budgets, and the queue for its share.

// enterPool asks the pool to admit the call, whose own limits are held already. If the pool refuses, it
// gives these back. again says that the seat is gone, or that a grant of a budget has come, and that the
// call has to be tried anew.
func (w *walk) enterPool() (rej *Refusal, again bool) {
	p := w.pool.pool
	seat := w.access.seat
	if seat.left() {
		w.leave()
		return nil, true
	}
	call := w.call()
	if !w.holds.shadow && !w.req.Forced {
		rej = p.refusalInOutage(w.now, w.tenant.name, &call)
		if rej != nil {
			w.leave()
			return rej, false
		}
	}
	rej = p.holdShares(w.now, seat, w.holds)
	if rej != nil {
		grant := w.awaitGrant(rej)
		w.leave()
		return rej, grant != nil && w.park(grant, w.may.least) == woken
	}
	w.place(&call)
	st := w.newState(&call)
	least := w.may.least.Sub(w.now)
	if p.set.Shared && call.MaxWait < least && p.escrow.GrantComes(w.now, &call) {
		call.MaxWait = least
	}
	w.g.stir(p, w.now) // first, because a call that goes at once is marked
	h, ans := w.offer(&call)
	switch ans.Verdict {
	case escrow.Admitted:
		booked := w.start(h, &st)
		if p.escrow.Waiting() > 0 { // one of these may have less than its share now
			w.g.pump(p, w.now)
		}
		return w.keepStart(w.now, h, booked), false
	case escrow.Queued:
		st.waiter = newWaiter()
		st.since = w.now
		*p.stateOf(h) = st
		w.g.pump(p, w.now)
		patience := min(ans.Patience, max(call.MaxWait, w.may.back.Sub(w.now)))
		return w.queue(queued{handle: h, waiter: st.waiter, call: call}, w.now.Add(patience)), false
	}
	rej = p.refusal(w.now, w.tenant.tenant, &call, ans)
	p.settleShares(w.now, w.holds, Spend{})
	w.leave()
	return rej, false
}

// pause waits until the call can go anywhere, in the pool's queue and without holding anything. Then the call has to be tried anew.
func (w *walk) pause(until time.Time) (rej *Refusal, again bool) {
	p := w.pool.pool
	call := escrow.Call{Leaf: w.access.seat.leaf}
	ans := escrow.Answer{Verdict: p.escrow.Pause(call.Leaf), Wait: until.Sub(w.now)}
	why := woken
	if ans.Verdict == escrow.Queued {
		why = w.park(newWaiter(), until)
		p.escrow.Resume(call.Leaf)
	}
	if why == timedOut {
		return nil, true
	}
	rej = p.refusal(w.now, w.tenant.tenant, &call, ans)
	because(rej, why)
	return rej, false
}

// call is the call as the escrow is asked to admit it.
func (w *walk) call() escrow.Call {
	p := w.pool.pool
	call := escrow.Call{
		Leaf:    w.access.seat.leaf,
		Most:    placement.PoolCost(w.holds.belief.cost(p.weights.holdCost(&w.req))),
		MaxWait: w.may.until.Sub(w.now), Claim: w.req.Claim, Via: p.upstreams.MaskOf(w.req.Listed, w.req.Via), Conversation: w.req.Conversation,
	}
	w.place(&call)
	p.slots.Expire(w.now)
	if p.slots.Coming(&call) || p.upstreamsComing(w.now, &call) {
		call.MaxWait = max(call.MaxWait, w.may.least.Sub(w.now))
	}
	return call
}

// place says behind which calls it goes.
func (w *walk) place(call *escrow.Call) {
	call.Background = w.req.Background || w.tenant.cfg.Background || w.holds.beyond
	call.Below = w.tenant.below(&w.req)
	if w.holds.beyond {
		call.Below = escrow.LowestBand
	}
}

// awaitGrant returns the waiter of a call that was refused and may wait for a grant of a budget;
// nil if it may not.
func (w *walk) awaitGrant(rej *Refusal) *waiter {
	p := w.pool.pool
	if !rej.Elsewhere || !w.now.Before(w.may.least) || p.slots.IsAlone() {
		return nil
	}
	grant := newWaiter()
	p.grants.waiting = append(p.grants.waiting, grant)
	return grant
}

// newState is the state of the call with its expectations.
func (w *walk) newState(call *escrow.Call) leaseState {
	return leaseState{
		seat: w.access.seat, id: w.req.ID, holds: w.holds, input: w.req.Input,
		course: w.pool.expect(w.tenant, w.access.seat, &w.req, call),
		stream: w.req.Stream, background: call.Background, interrupt: w.req.Interrupt,
	}
}

// offer offers the call to the escrow, and notes if it found no slot.
func (w *walk) offer(call *escrow.Call) (escrow.Handle, escrow.Answer) {
	p := w.pool.pool
	h, ans := p.offer(w.now, *call, w.holds, w.tenant.tenant, w.req.Forced)
	if ans.Verdict != escrow.Admitted && p.slots.Lacks(w.now, call, ans.Verdict == escrow.Queued) {
		p.grants.askForMore()
	}
	return h, ans
}

// start begins a call that was admitted at once, and returns its booked cost.
func (w *walk) start(h escrow.Handle, st *leaseState) escrow.Cost {
	p := w.pool.pool
	st.since = w.now
	s := p.stateOf(h)
	*s = *st
	if !w.req.Forced { // forced requests are no calls, and teach nothing
		p.start(s)
	}
	return p.escrow.CostOf(int(h.Slot))
}

// offer offers a call to the escrow. Work that is done already is booked in any case, as debt.
// The call of a shadow goes in any case too, and no place is kept for it, since it will not come
// back.
func (p *pool) offer(now time.Time, call escrow.Call, b *holds, t *tenant, done bool) (escrow.Handle, escrow.Answer) {
	switch {
	case done:
		return p.escrow.Force(now, call, true), escrow.Answer{Verdict: escrow.Admitted}
	case !b.shadow && p.dry(now):
		return p.offerDry(now, call)
	case !b.shadow:
		return p.escrow.Offer(now, call)
	}
	call.Claim = escrow.Claim{}
	ans := p.escrow.Foretell(now, call)
	switch ans.Verdict {
	case escrow.Admitted:
		return p.escrow.Offer(now, call)
	case escrow.Queued: // it would have gone when its turn came
	default:
		b.note(p.refusal(now, t, &call, ans))
	}
	return p.escrow.Force(now, call, false), escrow.Answer{Verdict: escrow.Admitted}
}

// queued is a call that waits in the pool's queue.
type queued struct {
	handle escrow.Handle
	waiter *waiter
	call   escrow.Call
}

// queue waits until the call is dispatched. Meanwhile its own limits are held rather than booked, so that
// their minute begins when the call does.
func (w *walk) queue(q queued, deadline time.Time) *Refusal {
	p := w.pool.pool
	w.holds.suspend(w.now)
	for {
		why := w.park(q.waiter, deadline)
		if why == timedOut { // its turn may come in this very instant
			w.g.pump(p, w.now)
		}
		st := p.stateOf(q.handle)
		if st.waiter == nil && why != gone {
			began := st.since
			booked := p.escrow.CostOf(int(q.handle.Slot))
			w.holds.resume(w.now)
			return w.keepStart(began, q.handle, booked)
		}
		if why == woken {
			continue
		}
		rej := w.quit(&q, st, why)
		w.g.pump(p, w.now)
		w.leave()
		return rej
	}
}

// quit takes the call out of the queue, and returns the refusal.
func (w *walk) quit(q *queued, st *leaseState, why cause) *Refusal {
	p := w.pool.pool
	var ans escrow.Answer
	switch {
	case st.waiter == nil: // dispatched, but its caller has gone
		p.end(w.now, q.handle, taking{})
	case why == timedOut:
		ans, _ = p.escrow.Refuse(w.now, q.handle, q.call.Claim.Key)
	default:
		p.escrow.Cancel(w.now, q.handle)
	}
	*st = leaseState{}
	rej := p.refusal(w.now, w.tenant.tenant, &q.call, ans)
	p.settleShares(w.now, w.holds, Spend{})
	because(rej, why)
	return rej
}
