package governor

import (
	"context"
	"slices"
	"time"
)

// tab is what one call holds beyond the pool's share: of quotas and budgets, of its tenant and of
// what that is a team of. It belongs to its call, and to whoever ends that.
type tab struct {
	chain []link      // the quotas that hold for it, its own tenant's first
	holds []quotaHold // in each quota of chain, as far as the call has come
	cost  ownCost     // as asked for
	caps  []held      // of tenants' budgets, in the order of chain
	parts []held      // of the pool's budgets

	shadow bool       // it goes whatever the limits say,
	would  *Rejection // and would have been refused

	asked  uint64 // the call's number, if the governor is detailed
	call   uint64 // its number in the journal; 0 = it is not there
	price  Price
	spend  Spend     // what it is expected to spend
	exact  bool      // spend is the most that a commitment may take: it holds all of it, or nothing
	at     time.Time // when its budgets were held
	logged int64     // tokens that the journal knows of
	ended  uint64    // its number in the tally; 0 until it has ended
	// meanRun is how long the tenant's calls ran on average when this one came.
	meanRun time.Duration
}

// open gives a call its tab. leave takes it back.
func (g *Governor) open(a *access, c ownCost, shadow bool) *tab {
	b := g.tabs.Get().(*tab)
	*b = tab{chain: a.chain, cost: c, shadow: shadow, holds: b.holds[:0], caps: b.caps[:0], parts: b.parts[:0]}
	return b
}

// enter holds a call's cost of every quota of its chain, all or none. Where one has no room the
// call waits in that quota's line, not in the pool's queue, and blocks no other tenant; what it has
// of the other quotas is meanwhile held, not booked. It returns the time at which it had everything.
func (g *Governor) enter(ctx context.Context, b *tab, now time.Time, may waits) (time.Time, *Rejection) {
	for i := range b.chain {
		k := &b.chain[i]
		h, w, rej := k.join(now, b.cost, may, b.shadow)
		if w != nil {
			b.suspend(now)
			for _, later := range b.chain[i+1:] {
				later.q.askAhead(now, b.cost)
			}
			h, now, rej = g.standInLine(ctx, k.q, w, may.until)
		}
		if b.shadow {
			b.note(rej)
		} else if rej != nil {
			g.leave(now, b, ownCost{}, Spend{}, 0)
			return now, rej
		}
		b.holds = append(b.holds, h)
	}
	b.resume(now)
	return now, nil
}

// note keeps the first reason for which a shadow would have been refused.
func (b *tab) note(rej *Rejection) {
	if b.would == nil {
		b.would = rej
	}
}

// suspend turns what was booked into holds while the call waits.
func (b *tab) suspend(now time.Time) {
	for i := range b.holds {
		b.chain[i].q.suspend(now, &b.holds[i])
	}
}

// resume books the holds as the call starts.
func (b *tab) resume(now time.Time) {
	for i := range b.holds {
		b.chain[i].q.resume(now, &b.holds[i])
	}
}

// spendFrom holds what a call is expected to take of its tenants' budgets, all or none. short says
// that a refused call may go if it waits for a part.
func (g *Governor) spendFrom(b *tab, now time.Time, s Spend) (rej *Rejection, short bool) {
	b.spend = s
	b.at = now
	for i := range b.chain {
		q := b.chain[i].q
		q.mu.Lock()
		if i == 0 {
			b.meanRun = q.meanRun
		}
		b.caps, rej = holdAll(now, q.caps, b.caps, nobody, b)
		short = rej != nil && rej.Reason != ReasonBudget && slices.ContainsFunc(q.caps, (*account).wantsPart)
		q.mu.Unlock()
		if rej != nil {
			return rej, short
		}
	}
	return nil, false
}

// leave ends a call's tab with what the call really took of limits and budgets, and wakes the first
// in each line. What it held of the pool's budgets has to be settled before.
func (g *Governor) leave(now time.Time, b *tab, actual ownCost, spent Spend, ran time.Duration) {
	caps := b.caps
	reached := len(b.holds)
	if b.exact { // a commitment holds nothing of quotas, but of their budgets
		reached = len(b.chain)
	}
	for i := range reached {
		q := b.chain[i].q
		q.mu.Lock()
		if !b.exact {
			q.leaveLocked(now, &b.holds[i], actual, ran)
		}
		for len(caps) > 0 && caps[0].of == q {
			caps[0].account.settle(now, caps[0], spent)
			caps = caps[1:]
		}
		q.bookEndedLocked(now, b.ended, b.caps, spent)
		q.line.wakeNext()
		q.mu.Unlock()
	}
	clear(b.holds)
	clear(b.caps)
	clear(b.parts)
	g.tabs.Put(b)
}
