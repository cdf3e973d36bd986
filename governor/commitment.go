package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/record"
	"github.com/llmgov/llmgov/governor/terms"
)

// A commitment is the most that work may take of budgets that the provider does later, outside of all
// limits per minute: a batch, for instance. It takes no slot and no turn, is no call that a drain waits for, and
// may last for days. Unlike a call, which holds its expected cost, it holds the most that it
// may take, because nothing can stop it once it has begun.
//
// A journal learns of it when it ends: whoever made it has to make it anew after a restart.
type commitment struct {
	state leaseState
	ended bool
}

// commitRetry is when to come back if commitments or calls are in the way of another commitment.
const commitRetry = time.Minute

// commit holds the most that a Request that is BudgetsOnly may take of all budgets, or of none.
func (c *call) commit() (rej *Refusal) {
	c.open(limits.Cost{})
	b := c.holds
	b.price = c.req.Price
	b.exact = true
	rej, _ = c.g.spendFrom(b, c.now, c.pool.most(&c.req))
	if rej == nil {
		rej = c.pool.holdShares(c.now, c.access.seat, b)
	}
	if rej != nil {
		c.leave()
		return rej
	}
	m := &commitment{state: leaseState{seat: c.access.seat, id: c.req.ID, holds: b, input: c.req.Input, since: c.now}}
	m.state.course.kind = kindOf(c.tenant, &c.req)
	c.lease = Lease{g: c.g, pool: c.pool.pool, commitment: m, Would: b.would}
	return nil
}

// most is the most that a request may take of budgets. A spent budget also bars work that declares no
// tokens.
func (p *poolView) most(req *Request) terms.Spend {
	tokens := p.weights.most(req.Input, req.Output)
	return terms.Spend{UnitTokens: max(1, tokens), UnitMicroUSD: req.mostUSD()}
}

// end replaces the hold of a lease's commitment by its actual cost.
func (c *commitment) end(now time.Time, l *Lease, u Usage) (e ended, ok bool) {
	if c.ended {
		return e, false
	}
	c.ended = true
	b := c.state.holds
	g := l.g
	p := l.pool
	spent := l.spent(u, 0, b.price)
	b.ended = g.tally.note(now, &c.state, p.name, spent, terms.Spend{})
	p.bookEnded(now, c.state.seat, b.shares, spent)
	p.settleShares(now, b, spent)
	e = ended{st: c.state, now: now, asked: b.asked, price: b.price, microUSD: spent[UnitMicroUSD]}
	g.keepCommitment(&e, p, spent)
	g.leave(now, b, limits.Cost{}, spent, 0)
	return e, true
}

// keepCommitment has a commitment journaled that took something, as a call that was admitted when it was
// made and has ended now.
func (g *Governor) keepCommitment(e *ended, p *pool, spent terms.Spend) {
	if g.journal == nil || spent == (terms.Spend{}) {
		return
	}
	b := e.st.holds
	g.calls++
	admitted := b.record(record.Admitted, p.name, e.st.since, record.Charge{Spend: b.spend})
	admitted.Call = g.calls
	e.records[0] = admitted
	e.records[1] = admitted
	e.records[1].Kind = record.Ended
	e.records[1].Ended = e.now
	e.records[1].Took = record.Charge{Spend: spent}
}
