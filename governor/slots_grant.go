package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow/slots"
)

// poolGrants are a pool's changes for whoever divides its slots and budgets over processes (Config.SharedSlots). The grants of slots
// are with the pool's slots, and those of budgets with the budgets.
type poolGrants struct {
	all    *changes
	handle SharedSlots
	slots  *slots.Side // the pool's

	inUse   bool      // somebody speaks for them
	lacks   bool      // a call found no slot, or too small a grant of a budget, since the last Claim
	waiting []*waiter // calls that wait for a grant of a budget
}

// SharedSlots are the slots and budgets of a pool, as seen by whoever divides them over processes
// (Config.SharedSlots): it reads demands, and puts grants in force. They are for one
// goroutine.
type SharedSlots struct {
	// Speaker is whatever those who speak for the slots want to find again.
	Speaker any

	g     *Governor
	p     *pool
	turns turns
}

// hear wakes the calls that wait for a grant of a budget.
func (l *poolGrants) hear() {
	for _, w := range l.waiting {
		w.wake()
	}
	l.waiting = nil
}

// shareSlots has the pool's slots and budgets divided over processes, if the governor's are.
func (p *pool) shareSlots(g *Governor) {
	if g.changes == nil || !g.sharedSlots {
		return
	}
	p.grants = &poolGrants{all: g.changes}
	p.grants.handle = SharedSlots{g: g, p: p}
	p.instance = g.instance
}

// announce lists the pool so that somebody speaks for its slots and budgets, unless somebody
// does already or it has none.
func (p *pool) announce() {
	if l := p.grants; l != nil && !l.inUse && p.divided() {
		l.inUse = true
		l.all.listPool(p)
	}
}

// askForMore lists the pool so that the store is asked for more at once.
func (l *poolGrants) askForMore() {
	if !l.lacks {
		l.lacks = true
		l.all.listPool(l.handle.p)
	}
}

// divided reports whether the pool has slots or budgets to divide.
func (p *pool) divided() bool { return p.rules.Concurrency > 0 || len(p.shares) > 0 }

// onLoss is the rule of the pool for the time when nobody answers.
func (l *poolGrants) onLoss() OnLoss { return l.handle.p.rules.OnLoss }

// oldest is how long the oldest running call has run.
func (p *pool) oldest(now time.Time) (age time.Duration) {
	for i := range p.leases {
		if st := &p.leases[i]; st.seat != nil && st.waiter == nil {
			age = max(age, now.Sub(st.since))
		}
	}
	return age
}
