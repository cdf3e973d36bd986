package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/terms"
)

// refusal explains why the store did not let the call in.
func (c *SharedCall) refusal(now time.Time) lacking {
	k := &c.holds.chain[0]
	t := Take{axis: limits.Requests}
	if c.lacks != nil {
		t = *c.lacks
		k = t.link
	}
	wait := c.wait
	o := k.own
	o.advance(now)
	if t.budget != nil {
		a := t.budget
		rej := a.refusal(now, c.spend, o.set.MeanRun())
		a.noRoom.remember(now, a.units(c.spend[a.Unit]), rej.RetryAfter)
		return lacking{k, rej, rej.RetryAfter}
	}
	cost := o.set.Clip(c.holds.cost)
	if t.axis == limits.Concurrency || o.set.Drains(t.axis) { // the store knows no rates
		wait = max(o.set.WaitOn(t.axis, cost), time.Millisecond)
	}
	o.set.Deny(t.axis, cost, wait)
	return lacking{k, o.refuseLimit(t.axis, cost, max(wait, askAgain)), wait}
}

// refusal explains why a budget has no room for a call, by the usage of all processes: it is spent, or
// held by calls in flight, or is granted to other processes that do not use it.
func (a *account) refusal(now time.Time, s terms.Spend, meanRun time.Duration) *Refusal {
	c := min(a.units(s[a.Unit]), a.limit())
	used := a.usedByAll(now)
	inFlight := a.inFlight()
	if used-inFlight >= a.limit() || used+c > a.limit() && inFlight > 0 {
		return a.ifAsked().refusalOf(now, nobody(0), s, budget.Answer{}, meanRun)
	}
	return a.refuseElsewhere(now, c)
}

// noRoom remembers that a budget had no room for an amount, and until when that is expected to last.
type noRoom struct {
	amount int64
	until  time.Time
}

// remember notes that there was no room for an amount, unless a smaller one is already known not to
// fit.
func (n *noRoom) remember(now time.Time, amount int64, wait time.Duration) {
	if !now.Before(n.until) || amount <= n.amount {
		*n = noRoom{amount, now.Add(wait)}
	}
}

// remembers returns the refusal of a call that need not ask: a limit had no room, was
// expected to have none until later, and by all news since still has none.
func (o *ownLimits) remembers(now time.Time, c limits.Cost, s terms.Spend) (*Refusal, time.Duration) {
	if !o.set.Current() {
		return nil, 0
	}
	if lack, denied := o.set.Denied(c); denied {
		return o.refuseLimit(lack.Axis, c, max(lack.Wait, askAgain)), lack.Wait
	}
	for _, a := range o.caps {
		a.advance(now)
		amount := a.units(s[a.Unit])
		if now.Before(a.noRoom.until) && amount >= a.noRoom.amount && a.usedByAll(now)+amount > a.limit() {
			o.set.NoteDenied()
			rej := a.refusal(now, s, o.set.MeanRun())
			return rej, rej.RetryAfter
		}
	}
	return nil, 0
}
