package governor

import (
	"context"
	"sync"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
)

// pool is the shell around an escrow.Pool: its lock, its timer, and what a
// lease needs beyond what the escrow books.
type pool struct {
	name string
	left time.Time // when it was found to be gone; for Apply alone

	mu     sync.Mutex
	rules  Pool          // in force
	base   escrow.Config // what they are to the escrow
	set    escrow.Config // and what cuts leave of that
	cuts   []Cut
	thaw   Timer // when the next of them ends; nil before the first
	escrow *escrow.Pool
	leases []leaseState // by the slot of an escrow handle
	out    []escrow.Handle
	timer  Timer
	armed  time.Time  // when timer fires; zero when it is stopped
	shares []*account // the pool's budgets
	learned
	limiter *adaptive.Limiter // of calls at once; nil where that is fixed
	held    time.Time         // when a call last found no slot free

	// Of a pool whose limits are shared: what is told to others, and has come of it.
	tree     *claimTree
	ppm      map[string]int64 // shares, by path
	era      int              // of the books that are reported from
	allowed  time.Time        // when the last allowances that were granted began
	learning time.Time        // until when nothing will be granted
	lent     *lent            // of calls at once; nil where they are not split
	// aloneUntil is until when allowances of its own are in force.
	aloneUntil time.Time
	// unheard is when a call that asked by what tenants' limits it may go was not answered last,
	// zero if one was since, and nodes how many there were as of the last look.
	unheard time.Time
	nodes   int

	measure   measure // has a lock of its own
	view      *claimsView
	measureAt Timer     // nil before the first
	measuring bool      // it runs, or its function does
	stirred   bool      // calls came or ended since the last look
	stirredAt time.Time // when it began to be measured
	reshared  bool      // shares have changed, and view has not yet

	claims  map[claimName]*claim
	retired []*claim // which are to go when nothing is lost by it
	sweep   int      // of retired, the next to be looked at
	seats   map[*tenant]*seat
}

func newPool(name string) *pool {
	return &pool{name: name, learned: newLearned(), claims: map[claimName]*claim{}, seats: map[*tenant]*seat{}}
}

// leaseState is what is known of a queued or running call.
type leaseState struct {
	id     string
	tenant *tenant
	leaf   escrow.NodeID
	tab    *tab
	input  int64
	course course
	waiter *waiter // nil once dispatched
	stream bool
	// interrupt is of the Request.
	interrupt context.CancelCauseFunc
	since     time.Time // when it was dispatched, or, while it waits, when it came
	output    int64     // tokens, as Progress told
	flowing   bool      // the first byte was seen

	// Of calls that a limiter learns from: whether they are background, and what it was like
	// when they were dispatched.
	background bool
	sight      sight
}

// used is how many tokens a call has taken so far.
func (st *leaseState) used() int64 {
	if !st.flowing {
		return 0
	}
	return st.input + st.output
}

// acquire asks the pool for a call whose own limits are held already, and gives
// these back when the pool refuses, or when the seat is gone and the call is to look
// for another. least is how long it may wait for a slot that nobody has, whatever maxWait is.
func (g *Governor) acquire(ctx context.Context, p *poolView, v *tenantView, at *seat, now time.Time, req *Request, b *tab, maxWait, least time.Duration) (l Lease, rej *Rejection, again bool) {
	p.mu.Lock()
	if at.gone {
		p.mu.Unlock()
		g.leave(now, b, ownCost{}, Spend{}, 0)
		return Lease{}, nil, true
	}
	call := escrow.Call{
		Leaf: at.leaf, Background: req.Background || v.cfg.Background,
		Most:    escrow.Cost{p.rules.Weights.most(req.Input, req.Output), 1},
		MaxWait: maxWait, Claim: req.Claim,
	}
	if req.BudgetsOnly {
		call.Most = escrow.Cost{}
	}
	p.expireLocked(now)
	if p.slotsComingLocked(call.Background) {
		call.MaxWait = max(maxWait, least)
	}
	rej = p.holdSharesLocked(now, at, b)
	if rej != nil {
		var w *waiter
		if rej.Elsewhere && least > 0 && !p.lent.alone {
			w = newWaiter()
			p.lent.waiting = append(p.lent.waiting, w)
		}
		p.mu.Unlock()
		g.leave(now, b, ownCost{}, Spend{}, 0)
		return Lease{}, rej, w != nil && g.park(ctx, w, now.Add(least)) == woken
	}
	st := leaseState{
		id: req.ID, tenant: v.tenant, leaf: at.leaf, tab: b, input: req.Input, course: p.expectLocked(v, at, req, &call),
		stream: req.Stream, background: call.Background, interrupt: req.Interrupt,
	}
	h, ans := p.offerLocked(now, call, b, v.tenant, req.Forced)
	g.stirLocked(p.pool, now)
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
		if !req.Forced { // which is no call, and teaches nothing
			p.startLocked(s)
		}
		booked := p.escrow.CostOf(int(h.Slot))
		p.mu.Unlock()
		l, rej = g.keepStart(now, p.pool, v.tenant, Lease{g: g, pool: p.pool, handle: h, Would: b.would}, b, booked)
		return l, rej, false
	case escrow.Queued:
		st.waiter, st.since = newWaiter(), now
		*p.stateLocked(h) = st
		g.pumpAndUnlock(p.pool, now)
		l, rej = g.queue(ctx, p.pool, h, &st, now, now.Add(ans.Patience), call)
		return l, rej, false
	}
	rej = p.rejectionLocked(now, v.tenant, at.leaf, call.Most, ans)
	p.settleSharesLocked(now, b, Spend{})
	p.mu.Unlock()
	g.leave(now, b, ownCost{}, Spend{}, 0)
	return Lease{}, rej, false
}

// offerLocked offers a call. What was done already is booked, and owed for. The call
// of a shadow goes in any case, and has no place kept: it will not come back for it.
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
	case escrow.Queued: // it would have gone in its turn
	default:
		b.note(p.rejectionLocked(now, t, call.Leaf, call.Most, ans))
	}
	return p.escrow.Force(now, call, false), escrow.Answer{Verdict: escrow.Admitted}
}

// queue waits for h to be dispatched. While it waits its own limits are held
// rather than booked, so that their minute begins when the call does.
func (g *Governor) queue(ctx context.Context, p *pool, h escrow.Handle, c *leaseState, since, deadline time.Time, call escrow.Call) (Lease, *Rejection) {
	b := c.tab
	b.suspend(since)
	for {
		why := g.park(ctx, c.waiter, deadline)
		now := g.clock.Now()
		p.mu.Lock()
		if why == timedOut { // this may be the very instant of its turn
			g.pumpAndUnlock(p, now)
			p.mu.Lock()
		}
		st := p.stateLocked(h)
		if st.waiter == nil && why != gone {
			began, booked := st.since, p.escrow.CostOf(int(h.Slot))
			p.mu.Unlock()
			b.resume(now)
			l, rej := g.keepStart(began, p, c.tenant, Lease{g: g, pool: p, handle: h, Waited: now.Sub(since)}, b, booked)
			if rej != nil {
				rej.Waited = now.Sub(since)
			}
			return l, rej
		}
		if why == woken {
			p.mu.Unlock()
			continue
		}
		var ans escrow.Answer
		switch {
		case st.waiter == nil: // dispatched to a caller who has gone
			p.endLocked(now, h, escrow.Cost{}, Usage{}, false)
		case why == timedOut:
			ans, _ = p.escrow.Refuse(now, h, call.Claim.Key)
		default:
			p.escrow.Cancel(now, h)
		}
		*st = leaseState{}
		rej := p.rejectionLocked(now, c.tenant, c.leaf, call.Most, ans)
		p.settleSharesLocked(now, b, Spend{})
		g.pumpAndUnlock(p, now)

		g.leave(now, b, ownCost{}, Spend{}, 0)
		rej.Waited = now.Sub(since)
		rej.because(why)
		return Lease{}, rej
	}
}

// stateLocked is the lease state of a handle.
func (p *pool) stateLocked(h escrow.Handle) *leaseState {
	for int(h.Slot) >= len(p.leases) {
		p.leases = append(p.leases, leaseState{})
	}
	return &p.leases[h.Slot]
}

// pumpAndUnlock dispatches what may go, arms the timer for what may go later,
// unlocks, and wakes those dispatched.
func (g *Governor) pumpAndUnlock(p *pool, now time.Time) {
	p.sweepLocked(now)
	p.expireLocked(now)
	var buf [16]*waiter
	wake := buf[:0]
	p.out = p.escrow.Pump(now, p.out[:0])
	for _, h := range p.out {
		st := &p.leases[h.Slot]
		wake = append(wake, st.waiter)
		st.waiter, st.since = nil, now
		p.startLocked(st)
	}
	g.armLocked(p, now)
	g.replanLaterLocked(p)
	p.mu.Unlock()
	for _, w := range wake {
		w.wake()
	}
}

// armLocked sets the pool's timer to when the head of its queue may go.
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

// endLocked settles a call in the escrow, learns from it, and forgets its state,
// which it returns. It reports false when the call has ended before.
func (p *pool) endLocked(now time.Time, h escrow.Handle, actual escrow.Cost, u Usage, whole bool) (leaseState, bool) {
	if !p.escrow.SettleFair(now, h, actual, p.rules.Weights.fair(u)) {
		return leaseState{}, false
	}
	st := p.leases[h.Slot]
	p.leases[h.Slot] = leaseState{}
	p.learnLocked(now, &st, u, whole)
	return st, true
}

// rejectionLocked explains an escrow's answer.
func (p *pool) rejectionLocked(now time.Time, t *tenant, leaf escrow.NodeID, cost escrow.Cost, ans escrow.Answer) *Rejection {
	s := p.escrow.State(now)
	rej := &Rejection{
		Tenant: t.name, Pool: p.name, Axis: ans.Axis.String(),
		RetryAfter: max(ans.Wait, time.Millisecond), Kept: ans.Ticket,
	}
	if ans.Axis == escrow.Slots {
		rej.Limit, rej.Used = p.slotsLocked()
		if rej.Asked = 1; p.lent != nil && rej.Used < rej.Limit {
			rej.RetryAfter = max(rej.RetryAfter, partRetry)
		}
	} else {
		a := s.Axes[ans.Axis]
		rej.Limit, rej.Used, rej.Asked = a.Limit, a.Used, min(cost[ans.Axis], a.Limit)
	}
	switch {
	case s.Held.After(now):
		rej.Reason = ReasonThrottled
	case p.lent != nil && p.lent.fenced,
		p.rules.OnLoss != LossOpen && (p.cutOffLocked(now) || ans.Axis == escrow.Slots && p.slotsLostLocked()):
		p.lostLocked(now, rej)
	case ans.Verdict == escrow.PoolFull:
		rej.Reason, rej.Used = ReasonOverloaded, int64(s.Waiting)
	case ans.Verdict == escrow.LeafFull:
		rej.Reason, rej.Used = ReasonQueueFull, int64(p.escrow.Node(leaf).Queued)
	case ans.Behind:
		rej.Reason = ReasonShare
	default:
		rej.Reason = [...]Reason{escrow.Tokens: ReasonTokens, escrow.Requests: ReasonRequests, escrow.Slots: ReasonConcurrency}[ans.Axis]
	}
	return rej
}

// close gives up all seats in a pool that is gone, if nothing runs in it and nothing
// of it counts any more. Calls may be on their way to it still, in the lines of their
// tenants: they are to look again.
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
