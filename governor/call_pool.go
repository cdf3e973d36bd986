package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/placement"
	"github.com/llmgov/llmgov/governor/terms"
)

// How a call goes through its pool: its budgets, and the queue for its share.

// enterPool asks the pool to admit the call, whose own limits are held already. If the pool refuses, it
// gives these back.
func (c *call) enterPool() progress {
	c.register()
	p := c.pool.pool
	seat := c.access.seat
	switch {
	case c.unplaced():
		c.leave()
		return c.refuse(c.refuseUnknown())
	case seat.left():
		c.leave()
		return c.again()
	}
	offer := c.offered()
	if !c.holds.shadow && !c.req.Forced {
		if rej := p.refusalInOutage(c.now, c.tenant.name, &offer); rej != nil {
			c.leave()
			return c.refuse(rej)
		}
	}
	if rej := p.holdShares(c.now, seat, c.holds); rej != nil {
		return c.lackShare(rej)
	}
	c.rank(&offer)
	st := c.newState(&offer)
	least := c.may.least.Sub(c.now)
	if p.set.Shared && offer.MaxWait < least && p.escrow.GrantComes(c.now, &offer) {
		offer.MaxWait = least
	}
	c.g.stir(p, c.now) // first, because a call that goes at once is marked
	h, ans := c.offer(&offer)
	switch ans.Verdict {
	case escrow.Admitted:
		booked := c.dispatch(h, &st)
		if p.escrow.Waiting() > 0 { // one of these may have less than its share now
			c.g.pump(p, c.now)
		}
		return c.admit(c.now, h, booked)
	case escrow.Queued:
		st.waiter = &waiter{}
		st.since = c.now
		*p.stateOf(h) = st
		c.g.pump(p, c.now)
		patience := min(ans.Patience, max(offer.MaxWait, c.may.back.Sub(c.now)))
		c.queued = &queued{handle: h, call: offer}
		c.holds.suspend(c.now) // so that their minute begins when the call does
		return c.await(inQueue, st.waiter, c.now.Add(patience))
	}
	rej := p.refusal(c.now, c.tenant.tenant, &offer, ans)
	p.settleShares(c.now, c.holds, terms.Spend{})
	c.leave()
	return c.refuse(rej)
}

// register numbers the call for the journal, and notes its price.
func (c *call) register() {
	if c.g.journal != nil {
		c.g.calls++
		c.holds.call = c.g.calls
	}
	c.holds.price = c.req.Price
}

// lackShare waits for a grant of one of the pool's budgets, if that is all that is lacking.
func (c *call) lackShare(rej *Refusal) progress {
	p := c.pool.pool
	c.rej = rej
	grant := &waiter{}
	waits := rej.Elsewhere && c.now.Before(c.may.least) && !p.slots.IsAlone()
	if waits {
		p.grants.waiting = append(p.grants.waiting, grant)
	}
	c.leave()
	if !waits {
		return decided
	}
	return c.await(lackingGrant, grant, c.may.least)
}

// hearGrant begins anew once a grant has come.
func (c *call) hearGrant(why cause) progress {
	if why != woken {
		c.because(c.rej, why)
		return decided
	}
	c.rej = nil
	return c.again()
}

// pause waits until the call can go anywhere, holding nothing. It counts in the length of the pool's queue.
func (c *call) pause(until time.Time) progress {
	if verdict := c.pool.escrow.Pause(c.access.seat.leaf); verdict != escrow.Queued {
		return c.refuse(c.refusedPaused(verdict))
	}
	return c.await(pausing, &waiter{}, until)
}

// endPause begins anew when the call can go.
func (c *call) endPause(why cause) progress {
	c.pool.escrow.Resume(c.access.seat.leaf)
	if why == timedOut {
		return c.again()
	}
	rej := c.refusedPaused(escrow.Queued)
	c.because(rej, why)
	return c.refuse(rej)
}

// refusedPaused is the refusal of a call that can go nowhere yet.
func (c *call) refusedPaused(verdict escrow.Verdict) *Refusal {
	offer := escrow.Call{Leaf: c.access.seat.leaf}
	ans := escrow.Answer{Verdict: verdict, Wait: c.req.Pause}
	return c.pool.refusal(c.now, c.tenant.tenant, &offer, ans)
}

// offered is the call as the escrow is asked to admit it.
func (c *call) offered() escrow.Call {
	p := c.pool.pool
	offer := escrow.Call{
		Leaf:    c.access.seat.leaf,
		Most:    placement.PoolCost(c.holds.belief.cost(p.weights.holdCost(&c.req))),
		MaxWait: c.may.until.Sub(c.now), Claim: c.req.Claim, Via: p.upstreams.MaskOf(c.req.Listed, c.req.Via), Conversation: c.req.Conversation,
	}
	c.rank(&offer)
	p.slots.Expire(c.now)
	if p.slots.Coming(&offer) || p.upstreamsComing(c.now, &offer) {
		offer.MaxWait = max(offer.MaxWait, c.may.least.Sub(c.now))
	}
	return offer
}

// rank says behind which calls it goes.
func (c *call) rank(offer *escrow.Call) {
	offer.Background = c.req.Background || c.tenant.cfg.Background || c.holds.beyond
	offer.Below = c.tenant.below(&c.req)
	if c.holds.beyond {
		offer.Below = escrow.LowestBand
	}
}

// newState is the state of the call with its expectations.
func (c *call) newState(offer *escrow.Call) leaseState {
	return leaseState{
		seat: c.access.seat, id: c.req.ID, holds: c.holds, input: c.req.Input,
		course: c.pool.expect(c.tenant, c.access.seat, &c.req, offer),
		stream: c.req.Stream, background: offer.Background, interrupt: c.req.Interrupt,
	}
}

// offer offers the call to the escrow, and notes if it found no slot.
func (c *call) offer(offer *escrow.Call) (escrow.Handle, escrow.Answer) {
	p := c.pool.pool
	h, ans := p.offer(c.now, *offer, c.holds, c.tenant.tenant, c.req.Forced)
	if ans.Verdict != escrow.Admitted && p.slots.Lacks(c.now, offer, ans.Verdict == escrow.Queued) {
		p.grants.askForMore()
	}
	return h, ans
}

// dispatch begins a call that was admitted at once, and returns its booked cost.
func (c *call) dispatch(h escrow.Handle, st *leaseState) escrow.Cost {
	p := c.pool.pool
	st.since = c.now
	s := p.stateOf(h)
	*s = *st
	if !c.req.Forced { // forced requests are no calls, and teach nothing
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

// queued is the place of a call in the pool's queue.
type queued struct {
	handle escrow.Handle
	call   escrow.Call
}

// leaveQueue goes on if the call has been dispatched. Until then its own limits are held rather than booked.
func (c *call) leaveQueue(why cause) progress {
	p := c.pool.pool
	if why == timedOut { // its turn may come in this very instant
		c.g.pump(p, c.now)
	}
	q := c.queued
	st := p.stateOf(q.handle)
	if st.waiter == nil && why != gone {
		c.holds.resume(c.now)
		return c.admit(st.since, q.handle, p.escrow.CostOf(int(q.handle.Slot)))
	}
	if why == woken {
		return waiting
	}
	rej := c.quit(q, st, why)
	c.g.pump(p, c.now)
	c.leave()
	return c.refuse(rej)
}

// quit takes the call out of the queue, and returns the refusal.
func (c *call) quit(q *queued, st *leaseState, why cause) *Refusal {
	p := c.pool.pool
	var ans escrow.Answer
	switch {
	case st.waiter == nil: // dispatched, but its caller has gone
		p.end(c.now, q.handle, taking{})
	case why == timedOut:
		ans, _ = p.escrow.Refuse(c.now, q.handle, q.call.Claim.Key)
	default:
		p.escrow.Cancel(c.now, q.handle)
	}
	*st = leaseState{}
	rej := p.refusal(c.now, c.tenant.tenant, &q.call, ans)
	p.settleShares(c.now, c.holds, terms.Spend{})
	c.because(rej, why)
	return rej
}

// start is when a call began, and at how much the pool booked it.
type start struct {
	at     time.Time
	booked escrow.Cost
}

// admit gives the call its lease.
func (c *call) admit(at time.Time, h escrow.Handle, booked escrow.Cost) progress {
	c.start = start{at, booked}
	c.lease = Lease{g: c.g, pool: c.pool.pool, handle: h, before: Booked{bounded(c.req.Booked.Input), bounded(c.req.Booked.Output)}, Would: c.holds.would}
	return decided
}
