package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/fairness"
	"github.com/llmgov/llmgov/escrow/slots"
)

// pool is the shell around an escrow.Pool: its timers, and what a lease needs beyond what the escrow books.
type pool struct {
	name string
	// instance is the process's name, where its slots are shared; empty draws one.
	instance string

	left time.Time // when a configuration first lacked it; for Apply alone

	rules   Pool          // as configured
	weights tokenWeights  // of rules
	base    escrow.Config // the same, for the escrow
	set     escrow.Config // base less what cuts take away; in force
	cuts    []Cut
	thaw    Timer // when the next cut ends; nil before the first
	escrow  *escrow.Pool
	leases  []leaseState    // by the slot of their escrow handles
	out     []escrow.Handle // scratch of pump
	timer   Timer
	armed   time.Time  // when timer fires; zero if it is stopped
	shares  []*account // the pool's budgets
	learned
	upstreams *upstreamBooks // nil if they have no limits of their own
	changes   *changes       // for their limits; nil if these are not shared
	slots     *slots.Side    // calls at once

	rates    rates       // what may be handed out of limits that are shared
	outage   outage      // nothing may be handed out of them
	grants   *poolGrants // changes of slots and budgets that are divided; nil if they are not
	measure  measure
	lateness lateness
	tree     tree
	seats    map[*tenant]*seat
}

func newPool(name string) *pool {
	return &pool{
		name: name, learned: newLearned(), tree: tree{present: map[nodeName]*node{}}, seats: map[*tenant]*seat{},
		measure: measure{view: &treeView{tree: fairness.NewTree()}},
	}
}

// pump dispatches the calls that may go, and sets the timer for those that may go later.
func (g *Governor) pump(p *pool, now time.Time) {
	p.tree.removeRetired(now)
	p.slots.Expire(now)
	p.out = p.escrow.Pump(now, p.out[:0])
	for _, h := range p.out {
		st := &p.leases[h.Slot]
		caller := st.waiter
		st.waiter = nil
		st.since = now
		p.start(st)
		caller.wake()
	}
	g.arm(p, now)
	g.replanLater(p)
}

// arm sets the pool's timer to when the next call in its queue may go.
func (g *Governor) arm(p *pool, now time.Time) {
	at, ok := p.escrow.Next()
	switch {
	case !ok:
		if !p.armed.IsZero() {
			p.timer.Stop()
			p.armed = time.Time{}
		}
	case p.timer == nil:
		p.armed = at
		p.timer = g.after(at.Sub(now), func(now time.Time) {
			p.armed = time.Time{}
			g.pump(p, now)
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
	s := p.escrow.State(now)
	if s.Running > 0 || s.Waiting > 0 || !unused(now, p.shares, false) {
		return false
	}
	for _, st := range p.seats {
		st.gone = true
	}
	return true
}
