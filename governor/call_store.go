package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/refusal"
	"github.com/llmgov/llmgov/governor/terms"
)

// A call that the store refused, although as far as is known here there was room, asks again
// after askAgain, and after twice as long each further time, up to askSeldom.
const (
	askAgain  = 50 * time.Millisecond
	askSeldom = time.Second
)

// storeCall is a call that the store has to let in, on its way through its limits. See askStore.
type storeCall struct {
	spend    terms.Spend
	deadline time.Time // until when it may wait for room in a limit
	most     time.Time // until when its turn to be answered comes
	asked    *SharedCall

	in    *link // the link in whose line it stands, or nil
	place *inLine
	next  time.Time     // when it asks again even if nothing has changed
	again time.Time     // before that it does not ask again
	pause time.Duration // between two questions; doubles each time
	why   *Refusal      // reason for waiting, as a refusal
	room  time.Time     // when there will be room, according to why
}

// askStore is enterLimits and enterBudgets for pools whose calls ask the store: one question covers all of
// a call's limits and budgets. A call that does not fit waits in the line of one limit that it
// lacks, and holds nothing meanwhile. The first in a line asks again when there should be room by
// the store's answer, or sooner if there is as far as is known here. Those behind it for whom there
// is room as well ask at the same time.
func (c *call) askStore() progress {
	e := c.store
	if e == nil {
		spend, _ := c.expected()
		e = &storeCall{spend: spend, deadline: c.may.until, most: later(c.may.until, c.now.Add(grantWait)), pause: askAgain}
		c.store = e
	}
	if lack := e.ahead(c); lack.rej != nil {
		return c.lackLimit(lack)
	}
	e.asked = c.consult(e.spend, e.most)
	return c.hearStore(woken)
}

// hearStore goes on as the store says. It waits for the answer at most askWait once it is the call's turn.
func (c *call) hearStore(why cause) progress {
	e := c.store
	asked := e.asked
	if asked.state == asking {
		turn := asked.since.Add(askWait)
		switch {
		case why == gone || why == draining:
			asked.state = left
		case !c.now.Before(turn):
			asked.state = lost
		default:
			return c.await(listening, &asked.heard, turn)
		}
	}
	c.pool.noteAnswered(c.now, asked)
	switch asked.state {
	case left:
		return c.turnedAway(gone)
	case refused:
		e.pause = min(2*e.pause, askSeldom)
		e.again = c.now.Add(e.pause)
		return c.lackLimit(asked.refusal(c.now))
	case lost:
		e.quit(false)
		if rej := e.alone(c); rej != nil {
			c.leave()
			return c.refuse(rej)
		}
	default:
		e.quit(true)
	}
	return c.to(atPool)
}

// lackLimit has the call wait in the line of a limit that it lacks, if it can wait.
func (c *call) lackLimit(lack lacking) progress {
	e := c.store
	if c.holds.shadow {
		e.force(c, e.cannotWait(c, lack))
		return c.to(atPool)
	}
	if rej := e.stand(c, lack); rej != nil {
		e.quit(false)
		c.leave()
		return c.refuse(rej)
	}
	return c.awaitTurn(woken)
}

// lacking is why a call does not go: the link that lacks room, the refusal, and how long until there is
// room; 0 if that is unknown.
type lacking struct {
	link *link
	rej  *Refusal
	wait time.Duration
}

// ahead says why a call need not ask: others wait in line before it for one of its limits, or,
// under cached_deny, a limit is known to have no room.
func (e *storeCall) ahead(c *call) lacking {
	for i := range c.holds.chain {
		k := &c.holds.chain[i]
		rej, wait := e.aheadAt(c, k)
		if rej != nil {
			return lacking{k, rej, wait}
		}
	}
	return lacking{}
}

// aheadAt is ahead for one link.
func (e *storeCall) aheadAt(c *call, k *link) (*Refusal, time.Duration) {
	o := k.own
	o.advance(c.now)
	cost := o.set.Clip(c.holds.cost)
	if k != e.in {
		lack, behind := o.set.Behind(limits.Call{Cost: c.holds.cost, Via: k.via, Below: c.may.below})
		if behind {
			wait := max(lack.Wait, o.set.WaitOn(lack.Axis, cost), askAgain)
			return o.refuseLimit(lack.Axis, cost, wait), lack.Wait
		}
	}
	if c.pool.cfg.TenantLimits == LimitsCachedDeny && e.place == nil {
		return o.remembers(c.now, cost, e.spend)
	}
	return nil, 0
}

// cannotWait returns the refusal if a call cannot wait for room: it may not wait that long, or the
// line is full. It is nil if the call may wait.
func (e *storeCall) cannotWait(c *call, l lacking) *Refusal {
	left := e.deadline.Sub(c.now)
	switch {
	case left <= 0 || l.rej.Budget.Limit > 0:
		return l.rej
	case l.rej.Axis != refusal.AxisConcurrency && l.wait > left: // for slots, wait is only a guess
		return l.rej
	case e.in == l.link:
		return nil
	}
	full := limits.Lack{}
	l.link.own.set.FillLine(&full, l.link.via)
	return byLine(l.rej, full, l.link.via)
}

// stand puts a call into the line of the limit that it lacks, or keeps it there. It returns a
// refusal if the call cannot wait.
func (e *storeCall) stand(c *call, l lacking) *Refusal {
	k := l.link
	if e.in != k {
		e.quit(false)
	}
	o := k.own
	if why := e.cannotWait(c, l); why != nil {
		return why
	}
	e.next = c.now.Add(max(l.wait, askAgain))
	if l.rej.Axis == refusal.AxisConcurrency {
		e.next = c.now.Add(e.pause)
	}
	e.why = l.rej
	e.room = c.now.Add(l.rej.RetryAfter)
	if e.in == k {
		o.set.Asking(&e.place.place, false)
		return nil
	}
	e.in = k
	e.place = newInLine()
	o.set.JoinAsking(&e.place.place, limits.Call{Cost: c.holds.cost, Via: k.via, Below: c.may.below})
	return nil
}

// awaitTurn goes on when it is the call's turn to ask.
func (c *call) awaitTurn(why cause) progress {
	if why.ends() {
		return c.turnedAway(why)
	}
	e := c.store
	o := e.in.own
	until := e.deadline
	asks := true
	o.advance(c.now)
	turn, first := o.set.MayAsk(&e.place.place)
	room := c.hasRoom()
	switch {
	case turn && room:
		until = e.again
	case first:
		until = e.next
	default:
		asks = false
	}
	switch {
	case asks && !c.now.Before(until):
		e.begin()
		return c.to(atStore)
	case !c.now.Before(e.deadline):
		return c.turnedAway(timedOut)
	}
	return c.await(denied, &e.place.waiter, earlier(until, e.deadline))
}

// begin marks the call as asking, and wakes the next in line, for whom there may be room too.
func (e *storeCall) begin() {
	o := e.in.own
	o.set.Asking(&e.place.place, true)
	o.wake()
}

// hasRoom reports whether all limits have room for the call, as far as is known here.
func (c *call) hasRoom() bool {
	for i := range c.holds.chain {
		if !c.holds.chain[i].own.hasRoom(c.now, c.holds.cost) {
			return false
		}
	}
	return true
}

func (o *ownLimits) hasRoom(now time.Time, c limits.Cost) bool {
	o.advance(now)
	return o.set.HasRoom(o.set.Clip(c))
}

// turnedAway ends a call's wait without success: it is refused by its reason for waiting, or
// because the caller went or the governor drains.
func (c *call) turnedAway(why cause) progress {
	e := c.store
	e.quit(false)
	rej := e.why
	switch {
	case rej == nil: // it waited for the store's answer
		rej = refuseUnanswered(c.holds.chain[0].own.owner)
	case rej.Axis != refusal.AxisConcurrency: // for slots the guess is as good as before
		retryIn(rej, max(e.room.Sub(c.now), askAgain))
	}
	if why == gone && c.g.Draining() {
		why = draining
	}
	c.because(rej, why)
	c.leave()
	return c.refuse(rej)
}

// quit takes the call out of the line in which it stands, if any. served says that it goes.
func (e *storeCall) quit(served bool) {
	if e.in == nil {
		return
	}
	e.in.own.quit(e.place, served)
	e.in = nil
	e.place = nil
}

// force books the call of a shadow. rej is why it would have been refused, or nil.
func (e *storeCall) force(c *call, rej *Refusal) {
	if rej != nil {
		c.holds.note(rej)
	}
	c.holds.let(c.now, e.spend, c.holds.expected)
}

// expected is the expected cost of the call in a budget, in the units of its books.
func (b *holds) expected(a *account) int64 { return min(a.units(b.spend[a.Unit]), a.limit()) }

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
