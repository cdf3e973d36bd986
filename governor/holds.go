package governor

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/terms"
)

// holds are those of one call beside the pool's share: of limits and budgets, of its tenant and of
// those above it. It belongs to its call, and to whoever ends that.
type holds struct {
	books  string        // the name in which it is written down, from its admission to its end
	chain  []link        // the limits that hold for it, its own tenant's first
	holds  []limits.Hold // in each link of chain, as far as the call has come
	cost   limits.Cost   // as asked for
	caps   []held        // of tenants' budgets, in the order of chain
	shares []held        // of the pool's budgets

	beyond bool // of a budget that sends calls into the background

	shadow bool     // it goes whatever the limits say,
	would  *Refusal // and would have been refused
	free   bool     // they are not enforced, so nothing beyond them is owed

	belief belief
	asked  uint64 // the call's number
	call   uint64 // its number in the journal; 0 = it is not there
	price  *Price
	spend  terms.Spend // expected
	exact  bool        // spend is the most that a commitment may take: it holds all of it, or nothing
	at     time.Time   // when its budgets were held
	logged int64       // tokens that the journal knows of
	ended  uint64      // its number in the tally; 0 until it has ended
	// meanRun is how long the tenant's calls ran on average when this one came.
	meanRun time.Duration
}

// open gives a call its holds. leave takes it back.
func (g *Governor) open(now time.Time, at spot, c limits.Cost, shadow bool) *holds {
	b := g.spare.Get().(*holds)
	*b = holds{books: at.tenant.books(), chain: at.tenant.chain(now, at.pool), cost: c, shadow: shadow, holds: b.holds[:0], caps: b.caps[:0], shares: b.shares[:0]}
	return b
}

// note keeps the first reason for which a shadow would have been refused.
func (b *holds) note(rej *Refusal) {
	if b.would == nil {
		b.would = rej
	}
}

// suspend turns bookings into holds while the call waits.
func (b *holds) suspend(now time.Time) {
	for i := range b.holds {
		b.chain[i].own.suspend(now, &b.holds[i])
	}
}

// resume books the holds as the call starts.
func (b *holds) resume(now time.Time) {
	for i := range b.holds {
		b.chain[i].own.resume(now, &b.holds[i])
	}
}

// spendFrom holds the expected cost of a call in its tenants' budgets, all or none. short says
// that a refused call may go if it waits for a grant.
func (g *Governor) spendFrom(b *holds, now time.Time, s terms.Spend) (rej *Refusal, short bool) {
	b.spend = s
	b.at = now
	for i := range b.chain {
		o := b.chain[i].own
		if i == 0 {
			b.meanRun = o.set.MeanRun()
		}
		b.caps, rej = holdAll(now, o.caps, b.caps, nobody, b)
		short = rej != nil && rej.Reason != ReasonBudget && slices.ContainsFunc(o.caps, (*account).lacksGrant)
		if rej != nil {
			return rej, short
		}
	}
	return nil, false
}

// leave ends a call's holds with the actual cost on limits and in budgets, and wakes the first in each
// line. Its holds of the pool's budgets have to be settled before.
func (g *Governor) leave(now time.Time, b *holds, actual limits.Cost, spent terms.Spend, ran time.Duration) {
	caps := b.caps
	reached := len(b.holds)
	if b.exact { // a commitment holds nothing of limits, but of their budgets
		reached = len(b.chain)
	}
	for i := range reached {
		o := b.chain[i].own
		took := actual
		s := spent
		if b.belief.by != "" && o.owner != b.belief.by { // it is shared with siblings
			took = b.belief.cost(actual)
			s = b.belief.spend(spent)
		}
		if !b.exact {
			o.advance(now)
			if b.free {
				b.holds[i].Forgive()
			}
			o.set.Settle(&b.holds[i], took, ran)
		}
		for len(caps) > 0 && caps[0].of == o {
			caps[0].account.settle(now, caps[0], s)
			caps = caps[1:]
		}
		o.bookEnded(now, b.ended, b.caps, s)
		if c := o.sharing; c != nil && c.sign > 0 && o.overdrawn() {
			c.all.list(o) // others may be granted what was taken, and nobody asks before long
		}
		o.wake()
	}
	clear(b.holds)
	clear(b.caps)
	clear(b.shares)
	g.spare.Put(b)
}

// let books a call that was let in against all limits that hold for it: its cost, and of each
// budget what given says. What it takes is added to the grants.
func (b *holds) let(now time.Time, s terms.Spend, given func(*account) int64) {
	b.spend = s
	b.at = now
	for i := len(b.holds); i < len(b.chain); i++ {
		o := b.chain[i].own
		o.advance(now)
		b.letNext(now, o, given)
	}
}

// letNext books a call against the next limits of its chain.
func (b *holds) letNext(now time.Time, o *ownLimits, given func(*account) int64) {
	if len(b.holds) == 0 {
		b.meanRun = o.set.MeanRun()
	}
	b.holds = append(b.holds, o.set.Admit(o.set.Clip(b.cost)))
	o.applyGrants()
	for _, a := range o.caps {
		b.beyond = b.beyond || a.Background && a.usedByAll(now) >= a.limit()
		b.caps = append(b.caps, a.let(now, given(a)))
	}
}

// let holds an amount, in the books' units, and enlarges the grant by it.
func (a *account) let(now time.Time, amount int64) held {
	a.advance(now)
	a.granted += amount
	a.cap.SetLimit(max(a.cap.Limit(), a.cap.Counted()+amount))
	h, _ := a.cap.Hold(now, amount)
	a.applyGrant()
	a.pending += h.Amount()
	a.last = max(1, amount)
	return held{account: a, hold: h, till: a.ends}
}
