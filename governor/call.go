package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/terms"
)

// call is one call on its way: through the limits of its tenant, then budgets, then the pool. It is a value and no goroutine: it goes on as
// far as it can when it is told to, and where it has to wait it says for what, and until when. Whoever wakes it takes it on, under the lock.
type call struct {
	g      *Governor
	req    Request
	number uint64 // calls are numbered as they ask
	began  time.Time
	now    time.Time // moves on as the call waits

	spot // as of the table by which the call goes
	may  waits

	stage stage
	on    *waiter   // what it waits for, where it does
	until time.Time // until when
	gone  bool      // its caller has gone

	holds  *holds
	place  *inLine    // in the line of the next limit of its chain
	store  *storeCall // its question to the store
	queued *queued    // its place in the pool's queue

	rej      *Refusal // why it is refused
	lease    Lease    // once it is admitted
	start    start    // likewise
	upstream string   // where it is admitted, if that is told
}

// stage is how far a call has come.
type stage uint8

const (
	arriving  stage = iota // it holds nothing
	pausing                // it can go nowhere yet
	atLimits               // it holds some of its tenant's limits
	inALine                // of one of them
	atStore                // which has the limits for all processes
	listening              // to the store's answer
	denied                 // by the store, in the line of a limit
	atBudgets
	atPool
	lackingGrant // of one of the pool's budgets; it holds nothing
	inQueue      // of the pool
)

// progress is how a stage ends.
type progress uint8

const (
	onward progress = iota // to another stage
	waiting
	decided
)

// step takes a call on from where it is, whose wait there ended because of why. It reports whether the call is decided. If not, it waits.
func (c *call) step(why cause) bool {
	for {
		next := onward
		switch c.stage {
		case arriving: // 1. whose it is, and whether it may come at all
			next = c.arrive()
		case pausing:
			next = c.endPause(why)
		case atLimits: // 2. limits of its tenant, and of those above
			next = c.enterLimits()
		case inALine:
			next = c.standInLine(why)
		case atStore: // 3. where all processes ask, the store in place of 2 and 4
			next = c.askStore()
		case listening:
			next = c.hearStore(why)
		case denied:
			next = c.awaitTurn(why)
		case atBudgets: // 4. budgets of its tenant, and of those above
			next = c.enterBudgets()
		case atPool: // 5. the pool: its budgets, and its share
			next = c.enterPool()
		case lackingGrant:
			next = c.hearGrant(why)
		case inQueue: // 6. the pool's queue
			next = c.leaveQueue(why)
		}
		if next != onward {
			return next == decided
		}
		why = woken
	}
}

// goOn takes a call on until it is decided, which it reports, or there is something to wait for.
func (c *call) goOn(why cause) bool {
	for over := true; over; {
		if c.step(why) {
			return true
		}
		why, over = c.look()
	}
	return false
}

// to goes on to another stage.
func (c *call) to(next stage) progress {
	c.stage = next
	return onward
}

// await waits in a stage for somebody who wakes the waiter, at most until then.
func (c *call) await(in stage, on *waiter, until time.Time) progress {
	c.stage = in
	c.on = on
	c.until = until
	return waiting
}

// refuse decides against the call, which holds nothing any more.
func (c *call) refuse(rej *Refusal) progress {
	c.rej = rej
	return decided
}

// again begins anew, by the table that is in force now. The call holds nothing any more.
func (c *call) again() progress {
	c.tenant.passed()
	c.store = nil
	return c.to(arriving)
}

// begin makes a request a call. It cuts the amounts of the request to their bounds.
func (c *call) begin(now time.Time) {
	c.began = now
	c.now = now
	c.req.Input = bounded(c.req.Input)
	c.req.Output = bounded(c.req.Output)
	g := c.g
	g.asked++
	c.number = g.asked
	if g.detailed {
		g.events.add(Event{Kind: EventAsked, At: now, Call: c.number, Request: c.req.Record(), Upstreams: g.upstreamsOf(&c.req)})
	}
}

// conclude has the admission of a call journaled, and on a recorded governor tells the decision. The lock may be given back meanwhile.
func (c *call) conclude() {
	if c.rej == nil && c.g.journal != nil && c.lease.commitment == nil {
		c.keepStart()
	}
	if c.tenant != nil {
		c.tenant.passed()
	}
	waited := c.now.Sub(c.began)
	if c.rej == nil {
		c.lease.Waited = waited
		if c.g.detailed {
			c.upstream = c.lease.upstream()
		}
	}
	inPool(c.rej, c.req.Pool)
	inPool(c.lease.Would, c.req.Pool)
	after(c.rej, waited)
	if c.g.recorded && c.g.events.listened() {
		c.g.events.add(c.told())
	}
}

// arrive finds the call's tenant and pool, and opens its holds.
func (c *call) arrive() progress {
	c.spot = c.g.table.find(c.now, &c.req)
	switch {
	case c.tenant == nil:
		return c.refuse(c.refuseUnknown())
	case c.g.Draining():
		return c.refuse(refuseDraining(c.req.Tenant))
	}
	if c.req.Listed == nil {
		c.req.Listed = c.pool.names
	}
	if c.req.BudgetsOnly {
		c.rej = c.commit()
		return decided
	}
	if until := c.began.Add(c.req.Pause); c.now.Before(until) {
		return c.pause(until)
	}
	c.may = c.tenant.waitsOf(c.pool, &c.req, c.began)
	c.open(c.pool.weights.holdCost(&c.req))
	if c.req.Told {
		c.bound()
	}
	if c.g.consults(c.pool) && !c.req.Forced {
		return c.to(atStore)
	}
	return c.to(atLimits)
}

// open gives the call its holds, with the cost that it holds of limits: nothing if it is over already. leave takes it back.
func (c *call) open(cost limits.Cost) {
	if c.req.Forced {
		cost = limits.Cost{}
	}
	c.holds = c.g.open(c.now, c.spot, cost, c.tenant.cfg.Shadow || c.req.Forced)
	c.holds.free = c.tenant.cfg.Shadow
	c.holds.asked = c.number
}

// leave gives everything back that the call holds of limits and budgets. Its holds of the pool's
// budgets have to be given back before.
func (c *call) leave() { c.g.leave(c.now, c.holds, limits.Cost{}, terms.Spend{}, 0) }

// expected is what the call is expected to take of budgets; nothing if nobody asks.
func (c *call) expected() (s terms.Spend, asked bool) {
	if c.g.journal == nil && len(c.pool.cfg.Budgets) == 0 && !c.tenant.budgeted {
		return s, false
	}
	return c.holds.belief.spend(c.pool.expected(c.tenant, &c.req, false)), true
}

// enterLimits holds the call's cost of every link of its chain, one after the other. If one has no room the call waits
// in the line there, not in the pool's queue, and blocks no other tenant; its costs on the links
// before that are meanwhile held, not booked.
func (c *call) enterLimits() progress {
	b := c.holds
	var h limits.Hold
	for i := len(b.holds); i < len(b.chain); i++ {
		place, rej := b.chain[i].join(c.now, b, c.may, c.req.Claim, &h)
		if place != nil {
			b.suspend(c.now)
			for _, later := range b.chain[i+1:] {
				later.own.askAhead(c.now, b.cost)
			}
			c.place = place
			return c.to(inALine)
		}
		if b.shadow {
			b.note(rej)
		} else if rej != nil {
			c.leave()
			return c.refuse(rej)
		}
		b.holds = append(b.holds, h)
	}
	b.resume(c.now)
	return c.to(atBudgets)
}

// standInLine goes on if the call is first in line and fits.
func (c *call) standInLine(why cause) progress {
	b := c.holds
	k := &b.chain[len(b.holds)]
	o := k.own
	o.advance(c.now)
	if h, ok := o.take(c.place, !why.ends()); ok {
		b.holds = append(b.holds, h)
		return c.to(atLimits)
	}
	deadline := later(c.may.until, c.place.least)
	if why.ends() || !c.now.Before(deadline) {
		rej := o.giveUp(c.now, k, c.place, why.ends())
		c.because(rej, why)
		c.leave()
		return c.refuse(rej)
	}
	return c.await(inALine, &c.place.waiter, o.set.LookAgain(&c.place.place, deadline))
}

// enterBudgets holds the call's expected cost in the budgets of its tenant, and of those above it if it is a team. If only a grant is
// lacking, the call begins anew, and waits for it in the line of the limits.
func (c *call) enterBudgets() progress {
	spend, asked := c.expected()
	if !asked {
		return c.to(atPool)
	}
	rej, short := c.g.spendFrom(c.holds, c.now, spend)
	if rej == nil {
		return c.to(atPool)
	}
	c.leave()
	if short && c.now.Before(later(c.may.until, c.may.least)) {
		return c.again()
	}
	return c.refuse(rej)
}
