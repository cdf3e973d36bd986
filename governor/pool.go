package governor

import (
	"context"
	"sync"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// pool is the shell around an escrow.Pool: its lock, its timer, and what a
// lease needs beyond what the escrow books.
type pool struct {
	cfg   Pool
	index int

	mu     sync.Mutex
	escrow *escrow.Pool
	leases []leaseState // by the slot of an escrow handle
	out    []escrow.Handle
	timer  Timer
	armed  time.Time  // when timer fires; zero when it is stopped
	shares []*account // the pool's budgets
	learned
}

func newPool(cfg Pool, index int) *pool {
	return &pool{cfg: cfg, index: index, learned: newLearned()}
}

// leaseState is what is known of a queued or running call.
type leaseState struct {
	id      string
	tenant  *tenant
	own     ownHold
	input   int64
	course  course
	waiter  *waiter // nil once dispatched
	stream  bool
	since   time.Time // of the dispatch
	output  int64     // tokens, as Progress told
	flowing bool      // the first byte was seen
}

// used is how many tokens a call has taken so far.
func (st *leaseState) used() int64 {
	if !st.flowing {
		return 0
	}
	return st.input + st.output
}

// acquire asks the pool for a call whose own limits are held already, and gives
// these back when the pool refuses.
func (g *Governor) acquire(ctx context.Context, p *pool, t *tenant, now time.Time, req *Request, own ownHold, maxWait time.Duration) (Lease, *Rejection) {
	call := escrow.Call{
		Leaf: t.leaves[p.index], Background: req.Background || t.cfg.Background,
		Most:    escrow.Cost{p.cfg.Weights.most(req.Input, req.Output), 1},
		MaxWait: maxWait, Claim: req.Claim,
	}

	p.mu.Lock()
	if own.tab != nil {
		if rej := p.holdSharesLocked(now, t, own.tab); rej != nil {
			p.mu.Unlock()
			t.leave(now, own, ownCost{}, Spend{}, 0)
			return Lease{}, rej
		}
	}
	c := p.expectLocked(t, req, &call)
	h, ans := p.escrow.Offer(now, call)
	switch ans.Verdict {
	case escrow.Admitted:
		st := p.stateLocked(h)
		*st = leaseState{id: req.ID, tenant: t, own: own, input: req.Input, course: c, stream: req.Stream, since: now}
		p.startLocked(st)
		booked := p.escrow.CostOf(int(h.Slot))
		p.mu.Unlock()
		return g.keepStart(now, p, t, Lease{g: g, pool: p, handle: h}, own, booked)
	case escrow.Queued:
		w := newWaiter()
		*p.stateLocked(h) = leaseState{id: req.ID, tenant: t, input: req.Input, course: c, stream: req.Stream, waiter: w}
		g.pumpAndUnlock(p, now)
		return g.queue(ctx, p, t, h, w, own, now, now.Add(ans.Patience), call)
	}
	rej := p.rejectionLocked(now, t, call.Most, ans)
	p.settleSharesLocked(now, own.tab, Spend{})
	p.mu.Unlock()
	t.leave(now, own, ownCost{}, Spend{}, 0)
	return Lease{}, rej
}

// queue waits for h to be dispatched. While it waits its own limits are held
// rather than booked, so that their minute begins when the call does.
func (g *Governor) queue(ctx context.Context, p *pool, t *tenant, h escrow.Handle, w *waiter, own ownHold, since, deadline time.Time, call escrow.Call) (Lease, *Rejection) {
	own = t.suspend(since, own)
	for {
		why := g.park(ctx, w, deadline)
		now := g.clock.Now()
		p.mu.Lock()
		if why == timedOut { // this may be the very instant of its turn
			g.pumpAndUnlock(p, now)
			p.mu.Lock()
		}
		st := p.stateLocked(h)
		if st.waiter == nil && why != gone {
			p.mu.Unlock()
			return g.start(p, t, h, own, now, now.Sub(since))
		}
		if why == woken {
			p.mu.Unlock()
			continue
		}
		var ans escrow.Answer
		switch {
		case st.waiter == nil: // dispatched to a caller who has gone
			p.endLocked(now, h, escrow.Cost{}, 0, false)
		case why == timedOut:
			ans, _ = p.escrow.Refuse(now, h, call.Claim.Key)
		default:
			p.escrow.Cancel(now, h)
		}
		*st = leaseState{}
		rej := p.rejectionLocked(now, t, call.Most, ans)
		p.settleSharesLocked(now, own.tab, Spend{})
		g.pumpAndUnlock(p, now)

		t.leave(now, own, ownCost{}, Spend{}, 0)
		rej.Waited = now.Sub(since)
		rej.because(why)
		return Lease{}, rej
	}
}

// start books the own limits of a call that was dispatched after a wait.
func (g *Governor) start(p *pool, t *tenant, h escrow.Handle, own ownHold, now time.Time, waited time.Duration) (Lease, *Rejection) {
	own = t.resume(now, own)
	p.mu.Lock()
	st := p.stateLocked(h)
	st.own = own
	began, booked := st.since, p.escrow.CostOf(int(h.Slot))
	p.mu.Unlock()
	lease, rej := g.keepStart(began, p, t, Lease{g: g, pool: p, handle: h, Waited: waited}, own, booked)
	if rej != nil {
		rej.Waited = waited
	}
	return lease, rej
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
func (p *pool) endLocked(now time.Time, h escrow.Handle, actual escrow.Cost, output int64, whole bool) (leaseState, bool) {
	if !p.escrow.Settle(now, h, actual) {
		return leaseState{}, false
	}
	st := p.leases[h.Slot]
	p.leases[h.Slot] = leaseState{}
	p.learnLocked(now, &st, output, whole)
	return st, true
}

// rejectionLocked explains an escrow's answer.
func (p *pool) rejectionLocked(now time.Time, t *tenant, cost escrow.Cost, ans escrow.Answer) *Rejection {
	s := p.escrow.State(now)
	rej := &Rejection{
		Tenant: t.cfg.Name, Pool: p.cfg.Name, Axis: ans.Axis.String(),
		RetryAfter: max(ans.Wait, time.Millisecond), Kept: ans.Ticket,
	}
	if ans.Axis == escrow.Slots {
		rej.Limit, rej.Used, rej.Asked = s.Slots, s.Running, 1
	} else {
		a := s.Axes[ans.Axis]
		rej.Limit, rej.Used, rej.Asked = a.Limit, a.Used, min(cost[ans.Axis], a.Limit)
	}
	switch {
	case ans.Verdict == escrow.PoolFull:
		rej.Reason, rej.Used = ReasonOverloaded, int64(s.Waiting)
	case ans.Verdict == escrow.LeafFull:
		rej.Reason, rej.Used = ReasonQueueFull, int64(p.escrow.Node(t.leaves[p.index]).Queued)
	case ans.Behind:
		rej.Reason = ReasonShare
	default:
		rej.Reason = [...]Reason{escrow.Tokens: ReasonTokens, escrow.Requests: ReasonRequests, escrow.Slots: ReasonConcurrency}[ans.Axis]
	}
	return rej
}
