package governor

import (
	"sync"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/fairness"
	"github.com/llmgov/llmgov/escrow/slots"
)

// pool is the shell around an escrow.Pool: its lock, its timers, and what a lease needs beyond what
// the escrow books.
type pool struct {
	name string
	left time.Time // when a configuration first lacked it; for Apply alone

	mu      sync.Mutex
	rules   Pool          // as configured
	weights tokenWeights  // of rules
	base    escrow.Config // the same, for the escrow
	set     escrow.Config // base less what cuts take away; in force
	cuts    []Cut
	thaw    Timer // when the next cut ends; nil before the first
	escrow  *escrow.Pool
	leases  []leaseState    // by the slot of their escrow handles
	out     []escrow.Handle // scratch of pumpLocked
	// dispatched calls are to be woken when the lock is free; see wakeAndUnlock.
	dispatched []*waiter
	timer      Timer
	armed      time.Time  // when timer fires; zero if it is stopped
	shares     []*account // the pool's budgets
	learned
	upstreams *upstreamBooks // nil if they have no limits of their own
	changes   *changes       // for their limits; nil if these are not shared
	freed     func()         // pumps the pool, whose lock must be free
	slots     *slots.Side    // calls at once

	rates    rates       // what may be handed out of limits that are shared
	outage   outage      // nothing may be handed out of them
	grants   *poolGrants // changes of slots and budgets that are divided; nil if they are not
	measure  measure     // has a lock of its own
	lateness lateness
	tree     tree
	seats    map[*tenant]*seat
}

func newPool(name string) *pool {
	return &pool{
		name: name, learned: newLearned(), tree: tree{present: map[nodeName]*node{}}, seats: map[*tenant]*seat{},
		outage: outage{begun: make(chan struct{})}, measure: measure{view: &treeView{tree: fairness.NewTree()}},
	}
}

// pumpAndUnlock dispatches the calls that may go, sets the timer for those that may go later,
// unlocks the pool, and wakes the dispatched calls.
func (g *Governor) pumpAndUnlock(p *pool, now time.Time) {
	g.pumpLocked(p, now)
	p.wakeAndUnlock()
}

// pumpNow is pumpAndUnlock for callers without the lock.
func (g *Governor) pumpNow(p *pool) {
	p.mu.Lock()
	g.pumpAndUnlock(p, g.clock.Now())
}

// pumpLocked is pumpAndUnlock for callers that hold the lock longer. Call wakeAndUnlock in the end.
func (g *Governor) pumpLocked(p *pool, now time.Time) {
	p.tree.removeRetired(now)
	p.slots.Expire(now)
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
