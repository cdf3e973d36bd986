package governor

import (
	"context"
	"sync"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/escrow/limits"
)

// pool is the shell around an escrow.Pool: its lock, its timers, and what a lease needs beyond what
// the escrow books.
type pool struct {
	name string
	left time.Time // when a configuration first lacked it; for Apply alone

	mu     sync.Mutex
	rules  Pool          // as configured
	base   escrow.Config // the same, for the escrow
	set    escrow.Config // base less what cuts take away; in force
	cuts   []Cut
	thaw   Timer // when the next cut ends; nil before the first
	escrow *escrow.Pool
	leases []leaseState    // by the slot of their escrow handles
	out    []escrow.Handle // scratch of pumpLocked
	// dispatched calls are to be woken when the lock is free; see wakeAndUnlock.
	dispatched []*waiter
	timer      Timer
	armed      time.Time  // when timer fires; zero if it is stopped
	shares     []*account // the pool's budgets
	learned
	limiter *adaptive.Limiter // of calls at once; nil where that is fixed
	held    time.Time         // when a call last found no slot free

	// For a pool whose limits are shared: what others are told, and what they have granted and used.
	tree      *poolTree
	ppm       map[string]int64 // shares of claims, by path
	era       int              // counts up when reports begin to count anew
	allowed   time.Time        // when the allowances last granted began
	learning  time.Time        // until when nothing will be granted
	elsewhere elsewhere
	grants    *poolGrants // slots and budgets that are divided; nil where they are not
	// aloneUntil is until when allowances that the pool gave itself are in force.
	aloneUntil time.Time
	// unanswered is when the last call that asked the store got no answer; zero if it got one.
	// nodes is how many nodes there were when that was last known.
	unanswered time.Time
	nodes      int

	measure     measure // has a lock of its own
	view        *claimsView
	measureAt   Timer     // nil before the first measurement
	measuring   bool      // the timer runs, or its function does
	stirred     bool      // calls came or ended since the last measurement
	stirredAt   time.Time // when measuring began
	meteredFrom time.Time // when it began for the first time
	reshared    bool      // shares have changed, but view has not yet

	claims  map[claimName]*claim
	retired []*claim // to be removed once nothing is lost by it
	sweep   int      // index in retired of the next to be looked at
	seats   map[*tenant]*seat
}

func newPool(name string) *pool {
	return &pool{name: name, learned: newLearned(), claims: map[claimName]*claim{}, seats: map[*tenant]*seat{}}
}

// acquire asks the pool to admit a call whose own limits are held already. If the pool refuses, it
// gives these back. again says that the seat is gone, or that a grant of a budget has come, and that
// the call has to be tried anew.
func (g *Governor) acquire(ctx context.Context, p *poolView, v *tenantView, at *seat, now time.Time, req *Request, b *tab, may waits) (l Lease, rej *Rejection, again bool) {
	p.mu.Lock()
	if at.gone {
		p.mu.Unlock()
		g.leave(now, b, limits.Cost{}, Spend{}, 0)
		return Lease{}, nil, true
	}
	call := escrow.Call{
		Leaf: at.leaf, Background: req.Background || v.cfg.Background,
		Most:    escrow.Cost{p.rules.Weights.most(req.Input, req.Output), 1},
		MaxWait: may.until.Sub(now), Claim: req.Claim,
	}
	p.expireLocked(now)
	if p.slotsComingLocked(call.Background) {
		call.MaxWait = max(call.MaxWait, may.least.Sub(now))
	}
	rej = p.holdSharesLocked(now, at, b)
	if rej != nil {
		var w *waiter
		if rej.Elsewhere && now.Before(may.least) && !p.grants.alone {
			w = newWaiter()
			p.grants.waiting = append(p.grants.waiting, w)
		}
		p.mu.Unlock()
		g.leave(now, b, limits.Cost{}, Spend{}, 0)
		return Lease{}, rej, w != nil && g.park(ctx, w, may.least) == woken
	}
	st := leaseState{
		id: req.ID, tenant: v.tenant, leaf: at.leaf, tab: b, input: req.Input, course: p.expectLocked(v, at, req, &call),
		stream: req.Stream, background: call.Background, interrupt: req.Interrupt,
	}
	g.stirLocked(p.pool, now) // first, because a call that goes at once is marked
	h, ans := p.offerLocked(now, call, b, v.tenant, req.Forced)
	if ans.Verdict != escrow.Admitted && !p.escrow.HasSlot(call.Background) {
		if p.fullLocked(call.Background) {
			p.held = now
		}
		p.lackSlotLocked(now, at.leaf, ans.Verdict == escrow.Queued)
	}
	switch ans.Verdict {
	case escrow.Admitted:
		st.since = now
		s := p.stateLocked(h)
		*s = st
		if !req.Forced { // what is forced is no call, and teaches nothing
			p.startLocked(s)
		}
		booked := p.escrow.CostOf(int(h.Slot))
		p.mu.Unlock()
		l, rej = g.keepStart(now, p.pool, v.tenant, Lease{g: g, pool: p.pool, handle: h, Would: b.would}, b, booked)
		return l, rej, false
	case escrow.Queued:
		st.waiter = newWaiter()
		st.since = now
		*p.stateLocked(h) = st
		g.pumpAndUnlock(p.pool, now)
		patience := min(ans.Patience, max(call.MaxWait, may.back.Sub(now)))
		l, rej = g.queue(ctx, p.pool, h, &st, now, now.Add(patience), call)
		return l, rej, false
	}
	rej = p.rejectionLocked(now, v.tenant, at.leaf, call.Most, ans)
	p.settleSharesLocked(now, b, Spend{})
	p.mu.Unlock()
	g.leave(now, b, limits.Cost{}, Spend{}, 0)
	return Lease{}, rej, false
}

// offerLocked offers a call to the escrow. What was done already is booked in any case, as debt.
// The call of a shadow goes in any case too, and no place is kept for it, since it will not come
// back.
func (p *pool) offerLocked(now time.Time, call escrow.Call, b *tab, t *tenant, done bool) (escrow.Handle, escrow.Answer) {
	switch {
	case done:
		return p.escrow.Force(now, call, true), escrow.Answer{Verdict: escrow.Admitted}
	case !b.shadow && p.dryLocked(now):
		return p.offerDryLocked(now, call)
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
		b.note(p.rejectionLocked(now, t, call.Leaf, call.Most, ans))
	}
	return p.escrow.Force(now, call, false), escrow.Answer{Verdict: escrow.Admitted}
}

// queue waits for h to be dispatched. Meanwhile the call's own limits are held rather than booked,
// so that their minute begins when the call does.
func (g *Governor) queue(ctx context.Context, p *pool, h escrow.Handle, c *leaseState, since, deadline time.Time, call escrow.Call) (Lease, *Rejection) {
	b := c.tab
	b.suspend(since)
	for {
		why := g.park(ctx, c.waiter, deadline)
		now := g.clock.Now()
		p.mu.Lock()
		if why == timedOut { // its turn may come in this very instant
			g.pumpLocked(p, now)
		}
		st := p.stateLocked(h)
		if st.waiter == nil && why != gone {
			began := st.since
			booked := p.escrow.CostOf(int(h.Slot))
			p.wakeAndUnlock()
			b.resume(now)
			l, rej := g.keepStart(began, p, c.tenant, Lease{g: g, pool: p, handle: h, Waited: now.Sub(since)}, b, booked)
			return l, rej.after(now.Sub(since))
		}
		if why == woken {
			p.mu.Unlock()
			continue
		}
		var ans escrow.Answer
		switch {
		case st.waiter == nil: // dispatched, but its caller has gone
			p.endLocked(now, h, taking{})
		case why == timedOut:
			ans, _ = p.escrow.Refuse(now, h, call.Claim.Key)
		default:
			p.escrow.Cancel(now, h)
		}
		*st = leaseState{}
		rej := p.rejectionLocked(now, c.tenant, c.leaf, call.Most, ans)
		p.settleSharesLocked(now, b, Spend{})
		g.pumpAndUnlock(p, now)

		g.leave(now, b, limits.Cost{}, Spend{}, 0)
		rej.because(why)
		return Lease{}, rej.after(now.Sub(since))
	}
}

// pumpAndUnlock dispatches the calls that may go, sets the timer for those that may go later,
// unlocks the pool, and wakes the dispatched calls.
func (g *Governor) pumpAndUnlock(p *pool, now time.Time) {
	g.pumpLocked(p, now)
	p.wakeAndUnlock()
}

// pumpLocked is pumpAndUnlock for callers that hold the lock longer. Call wakeAndUnlock in the end.
func (g *Governor) pumpLocked(p *pool, now time.Time) {
	p.sweepLocked(now)
	p.expireLocked(now)
	p.out = p.escrow.Pump(now, p.out[:0])
	for _, h := range p.out {
		st := &p.leases[h.Slot]
		p.dispatched = append(p.dispatched, st.waiter)
		st.waiter = nil
		st.since = now
		p.startLocked(st)
	}
	g.armLocked(p, now)
	g.replanLaterLocked(p)
}

// wakeAndUnlock unlocks the pool, and wakes the dispatched calls.
func (p *pool) wakeAndUnlock() {
	var buf [16]*waiter
	wake := append(buf[:0], p.dispatched...)
	clear(p.dispatched)
	p.dispatched = p.dispatched[:0]
	p.mu.Unlock()
	for _, w := range wake {
		w.wake()
	}
}

// armLocked sets the pool's timer to when the next call in its queue may go.
func (g *Governor) armLocked(p *pool, now time.Time) {
	at, ok := p.escrow.Next()
	switch {
	case !ok:
		if !p.armed.IsZero() {
			p.timer.Stop()
			p.armed = time.Time{}
		}
	case p.timer == nil:
		p.armed = at
		p.timer = g.clock.AfterFunc(at.Sub(now), func() {
			p.mu.Lock()
			p.armed = time.Time{}
			g.pumpAndUnlock(p, g.clock.Now())
		})
	case !at.Equal(p.armed):
		p.armed = at
		p.timer.Reset(at.Sub(now))
	}
}

// close gives up all seats of a pool that is gone, if nothing runs in it and nothing of it counts
// any more. Calls that still wait for their tenants' own limits will look again. It reports whether
// it did.
func (p *pool) close(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.escrow.State(now)
	if s.Running > 0 || s.Waiting > 0 || !unused(now, p.shares) {
		return false
	}
	for _, st := range p.seats {
		st.gone = true
	}
	return true
}
