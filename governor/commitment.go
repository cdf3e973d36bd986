package governor

import (
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
)

// A commitment is the most that work may take of budgets that the provider does later, outside of all
// limits per minute: a batch, for instance. It takes no slot and no turn, is no call that a drain waits for, and
// may last for days. Unlike a call, which holds its expected cost, it holds the most that it
// may take, because nothing can stop it once it has begun.
//
// A journal learns of it when it ends: whoever made it has to make it anew after a restart.
type commitment struct {
	state leaseState
	ended atomic.Bool
}

// commitRetry is when to come back if commitments or calls are in the way of another commitment.
const commitRetry = time.Minute

// commit holds the most that a Request that is BudgetsOnly may take of all budgets, or of none. again says that
// its seat was given up by a new table.
func (w *walk) commit() (rej *Refusal, again bool) {
	w.open(limits.Cost{})
	b := w.holds
	b.price = w.req.Price
	b.exact = true
	rej, _ = w.g.spendFrom(b, w.now, w.pool.most(&w.req))
	if rej == nil {
		rej, again = w.pool.commitShares(w.now, w.access.seat, b)
	}
	if rej != nil || again {
		w.leave()
		return rej, again
	}
	c := &commitment{state: leaseState{seat: w.access.seat, id: w.req.ID, holds: b, input: w.req.Input, since: w.now}}
	c.state.course.kind = kindOf(w.tenant, &w.req)
	w.lease = Lease{g: w.g, pool: w.pool.pool, commitment: c, Would: b.would}
	return nil, false
}

// most is the most that a request may take of budgets. A spent budget also bars work that declares no
// tokens.
func (p *poolView) most(req *Request) Spend {
	tokens := p.weights.most(req.Input, req.Output)
	return Spend{UnitTokens: max(1, tokens), UnitMicroUSD: req.mostUSD()}
}

// commitShares holds the most that a commitment may take of the pool's budgets. gone says that the seat was given up.
func (p *pool) commitShares(now time.Time, at *seat, b *holds) (rej *Refusal, gone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at.left() {
		return nil, true
	}
	return p.holdSharesLocked(now, at, b), false
}

// end replaces the hold of a lease's commitment by its actual cost.
func (c *commitment) end(l *Lease, u Usage, how Ending) bool {
	if !c.ended.CompareAndSwap(false, true) {
		return false
	}
	st := &c.state
	b := st.holds
	g := l.g
	p := l.pool
	now := g.clock.Now()
	p.mu.Lock()
	spent := l.spent(u, 0, b.price)
	b.ended = g.tally.note(now, st, p.name, spent, Spend{})
	p.bookEndedLocked(now, st.seat, b.shares, spent)
	p.settleSharesLocked(now, b, spent)
	p.mu.Unlock()
	g.keepCommitment(now, p, st, spent)
	asked := b.asked
	price := b.price
	g.leave(now, b, limits.Cost{}, spent, 0)
	if g.events.listened() {
		g.tellEnd(p, st, Event{At: now, Call: asked, Ending: how, Usage: u, MicroUSD: spent[UnitMicroUSD], Request: Request{Price: price}})
	}
	return true
}

// keepCommitment journals a commitment that took something, as a call that was admitted when it was
// made and has ended now.
func (g *Governor) keepCommitment(now time.Time, p *pool, st *leaseState, spent Spend) {
	if g.journal == nil || spent == (Spend{}) {
		return
	}
	b := st.holds
	b.call = g.calls.Add(1)
	held := Charge{Spend: b.spend}
	err := g.journal.Append(Record{
		Kind: RecordAdmitted, Call: b.call, Tenant: b.books, Pool: p.name,
		Held: b.at, Began: st.since, Booked: held,
	})
	if err == nil { // the journal reports errors itself, and the work is done
		g.keepEnd(now, p, st, held, Charge{Spend: spent})
	}
}
