package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/terms"
)

// askWait is how long a call waits for the store's answer, even if its tenant's MaxWait is shorter.
// It is counted from when the calls that asked before it were answered. After that the pool does
// as its configuration says for a store that does not answer (Pool.OnLoss).
const askWait = 50 * time.Millisecond

// consults reports whether calls to a pool ask the store before they go.
func (g *Governor) consults(p *poolView) bool {
	return g.changes != nil && p.cfg.TenantLimits != LimitsLeased
}

// consulted is the outcome of a SharedCall.
type consulted int

const (
	asking  consulted = iota // no answer yet
	letIn                    // it is booked against all its limits
	refused                  // some limit has no room for it
	lost                     // nobody answered
	left                     // its caller waits no more
)

// SharedCall is a call that asks the store whether it may go, as seen by whoever talks to the
// store. It goes if all limits that hold for it have room, and is booked against all of them or
// none.
type SharedCall struct {
	g      *Governor
	holds  *holds
	spend  terms.Spend
	limits []*SharedLimits

	heard waiter    // for the decision
	most  time.Time // until when calls that asked before it may extend its wait

	state consulted
	since time.Time // since when it is its turn: when it asked, or the calls before it were last answered
	given []Take    // costs with which the store let it in
	lacks *Take     // the cost for which the store had no room; nil if it did not say
	wait  time.Duration
}

// Take is the cost of a call on one limit.
type Take struct {
	// Name is the limit's (see SharedLimits), and Amount is in the limit's own units.
	Name   string
	Amount int64

	link   *link
	axis   limits.Axis
	budget *account // nil for an axis
}

// OfBudget reports whether the limit is a budget, of which less will do if that is all that is left.
func (t *Take) OfBudget() bool { return t.budget != nil }

// consult asks the store about a call, whose turn to be answered comes no later than most.
func (c *call) consult(s terms.Spend, most time.Time) *SharedCall {
	b := c.holds
	asked := &SharedCall{g: c.g, holds: b, spend: s, since: c.now, most: most}
	for i := range b.chain {
		if b.chain[i].own.speaks() {
			asked.limits = append(asked.limits, &b.chain[i].own.sharing.handle)
		}
	}
	if len(asked.limits) == 0 { // there is nothing to ask about
		asked.let(c.now, nil)
	} else {
		c.g.changes.askFor(asked)
	}
	return asked
}

// Next says that calls that had asked before this one have just been answered.
func (c *SharedCall) Next(now time.Time) {
	c.g.mu.Lock()
	defer c.g.unlock()
	defer c.g.line.reach(c.told(Told{Verb: callNext, Now: c.g.line.since(now)})) // after the answer, which came in time if only this process is late
	c.next(now)
}

func (c *SharedCall) next(now time.Time) {
	c.since = earlier(now, c.most)
}

// speaks reports whether there is any limit. If so, whoever takes the call speaks for it from now on.
func (o *ownLimits) speaks() bool {
	if !o.limited() {
		return false
	}
	o.sharing.inUse = true
	return true
}

// Limits are those that hold for the call.
func (c *SharedCall) Limits() []*SharedLimits { return c.limits }

// Gone reports whether nobody waits for the answer any more.
func (c *SharedCall) Gone() bool {
	c.g.lock()
	defer c.g.unlock()
	return c.state != asking
}

// Takes lists the costs of the call on limits. It is empty if nobody waits for the answer any more.
func (c *SharedCall) Takes(s *SharedLimits) []Take {
	c.g.lock()
	defer c.g.unlock()
	if c.state != asking {
		return nil
	}
	for i := range c.holds.chain {
		if k := &c.holds.chain[i]; k.own == s.own {
			return k.takes(c.holds.cost, &c.spend)
		}
	}
	return nil
}

// takes lists the costs of a call on the limits and budgets of one link.
func (k *link) takes(cost limits.Cost, s *terms.Spend) (list []Take) {
	o := k.own
	cost = o.set.Clip(cost)
	for axis := range limits.Axis(limits.Axes) {
		if o.set.Limit(axis) > 0 {
			list = append(list, Take{Name: o.set.ShareName(axis), Amount: o.set.Amount(axis, cost), link: k, axis: axis})
		}
	}
	for _, a := range o.caps {
		if a.Background { // it refuses nothing
			continue
		}
		amount := min(a.units(s[a.Unit]), a.limit()) * a.scale
		list = append(list, Take{Name: a.periodName(), Amount: amount, link: k, budget: a})
	}
	return list
}

// Let books the call against all its limits, which have let it in with the given costs: Takes, with the
// Amounts that it may take. It reports whether somebody still waits for it.
func (c *SharedCall) Let(now time.Time, given []Take) bool {
	c.g.mu.Lock()
	defer c.g.unlock()
	t := Told{Verb: callLet, Now: c.g.line.since(now)}
	for i := range given {
		if given[i].budget != nil && c.g.recorded && c.state == asking {
			t.Takes = append(t.Takes, c.toldTake(&given[i]))
		}
	}
	defer c.g.line.reach(c.told(t)) // as in Next
	return c.let(now, given)
}

func (c *SharedCall) let(now time.Time, given []Take) bool {
	if c.state != asking {
		return false
	}
	c.given = given
	c.holds.let(now, c.spend, c.amountOf)
	c.decide(letIn)
	return true
}

// amountOf is how much of a budget the call was let in with, in the books' units. If the answer does
// not say, it is the amount that the call asked for.
func (c *SharedCall) amountOf(a *account) int64 {
	for i := range c.given {
		if c.given[i].budget == a {
			return a.units(c.given[i].Amount)
		}
	}
	return min(a.units(c.spend[a.Unit]), a.limit())
}

// Refuse says that the call was not let in: which of its Takes lacks room, nil if that is unknown, and
// how long until there is some. Put the answer in force in its limits first, because the refusal is
// explained by the usage of others.
func (c *SharedCall) Refuse(lacks *Take, wait time.Duration) {
	c.g.mu.Lock()
	defer c.g.unlock()
	t := Told{Verb: callRefuse, Wait: wait}
	if lacks != nil && c.g.recorded && c.state == asking {
		t.Takes = []ToldTake{c.toldTake(lacks)}
	}
	defer c.g.line.reach(c.told(t)) // as in Next
	c.refuse(lacks, wait)
}

func (c *SharedCall) refuse(lacks *Take, wait time.Duration) {
	if c.state == asking {
		c.lacks = lacks
		c.wait = wait
		c.decide(refused)
	}
}

// Lose says that nobody answered.
func (c *SharedCall) Lose() {
	c.g.mu.Lock()
	defer c.g.unlock()
	defer c.g.line.reach(c.told(Told{Verb: callLose})) // as in Next
	c.lose()
}

func (c *SharedCall) lose() {
	if c.state == asking {
		c.decide(lost)
	}
}

func (c *SharedCall) decide(state consulted) {
	c.state = state
	c.heard.wake()
}
