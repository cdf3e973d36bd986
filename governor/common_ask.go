package governor

import (
	"context"
	"sync"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/federation/parts"
)

// LimitsMode is how the calls of a pool are counted against their tenants' own limits, where these
// are kept together with other processes (Config.SharedLimits).
type LimitsMode uint8

const (
	// LimitsLeased lets calls go while they fit within the parts that this process holds. The
	// default.
	LimitsLeased LimitsMode = iota
	// LimitsCachedDeny is LimitsStrict, but does not ask while a limit is known to have no room.
	LimitsCachedDeny
	// LimitsStrict asks the store before each call.
	LimitsStrict
)

// askWait is how long a call waits for the store's answer, even if its tenant's MaxWait is shorter.
// It is counted from when the calls that asked before it were answered. After that the pool does
// what its configuration says for a store that does not answer (Pool.OnLoss).
const askWait = 50 * time.Millisecond

// consults reports whether calls to a pool ask the store before they go.
func (g *Governor) consults(p *poolView) bool {
	return g.commons != nil && p.cfg.TenantLimits != LimitsLeased
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
	tab    *tab
	spend  Spend
	limits []*SharedLimits

	decided chan struct{} // closed with the decision
	most    time.Time     // until when calls that asked before it may extend its wait

	mu      sync.Mutex // guards what follows, and tab until the decision
	state   consulted
	since   time.Time // since when it is its turn: when it asked, or the calls before it were last answered
	takes   []take    // what it takes of limits, in the order in which the store was told
	verdict parts.Verdict
}

// take is what a call takes of one limit: of an axis, or of a budget.
type take struct {
	link   *link
	axis   limits.Axis
	budget *account // nil for an axis
}

// consult asks the store and waits for the answer, at most askWait once it is the call's turn. Its
// turn comes no later than most.
func (g *Governor) consult(ctx context.Context, b *tab, s Spend, most time.Time) *SharedCall {
	now := g.clock.Now()
	c := &SharedCall{tab: b, spend: s, decided: make(chan struct{}), since: now, most: most}
	for i := range b.chain {
		if b.chain[i].own.speaks() {
			c.limits = append(c.limits, &b.chain[i].own.common.handle)
		}
	}
	if len(c.limits) == 0 { // there is nothing to ask about
		c.Let(now, parts.Verdict{})
		return c
	}
	g.commons.askFor(c)
	for wait := askWait; wait > 0; wait = c.lateAt().Sub(g.clock.Now()) {
		if g.hears(ctx, c, wait) {
			return c
		}
	}
	c.give(lost)
	return c
}

// hears waits for the answer to a call, at most for wait. It reports whether the call is decided,
// or nobody waits for it any more.
func (g *Governor) hears(ctx context.Context, c *SharedCall, wait time.Duration) bool {
	late := make(chan struct{})
	timer := g.clock.AfterFunc(wait, func() { close(late) })
	defer timer.Stop()
	select {
	case <-c.decided:
		return true
	case <-late:
		return false
	case <-ctx.Done():
	case <-g.drained:
	}
	c.give(left)
	return true
}

// lateAt is when the answer is overdue.
func (c *SharedCall) lateAt() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since.Add(askWait)
}

// Next says that calls that had asked before this one have just been answered.
func (c *SharedCall) Next(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = earlier(now, c.most)
}

// give ends the wait for an answer, unless there is one.
func (c *SharedCall) give(state consulted) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == asking {
		c.state = state
	}
}

// speaks reports whether there is any limit. If so, whoever takes the call speaks for it from now on.
func (o *ownLimits) speaks() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.limitedLocked() {
		return false
	}
	o.common.inUse = true
	return true
}

// Limits are those that hold for the call.
func (c *SharedCall) Limits() []*SharedLimits { return c.limits }

// Gone reports whether nobody waits for the answer any more.
func (c *SharedCall) Gone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state != asking
}

// Takes lists what the call takes of a limit's last claims, which are in the Ask's beat of this
// number. It is empty if nobody waits for the answer any more.
func (c *SharedCall) Takes(s *SharedLimits, beat int) (list []parts.Take) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != asking {
		return nil
	}
	for i := range c.tab.chain {
		if k := &c.tab.chain[i]; k.own == s.own {
			return c.takesOf(k, s.claims, beat)
		}
	}
	return nil
}

// takesOf lists what the call takes of one tenant's limits, so far as it was claimed, and remembers it.
func (c *SharedCall) takesOf(k *link, claims []parts.Claim, beat int) (list []parts.Take) {
	o := k.own
	o.mu.Lock()
	defer o.mu.Unlock()
	cost := o.set.Clip(c.tab.cost)
	for i := range claims {
		t := take{link: k}
		amount := int64(0)
		known := false
		switch name := claims[i].Name; claims[i].Kind {
		case parts.Period:
			for _, a := range o.caps {
				if a.periodName() == name {
					t.budget = a
					known = true
					amount = min(a.units(c.spend[a.Unit]), a.limit()) * a.scale
				}
			}
		default:
			t.axis, known = axisNamed(name)
			if known {
				amount = cost.On(t.axis)
			}
		}
		if known {
			c.takes = append(c.takes, t)
			list = append(list, parts.Take{Beat: beat, Claim: i, Amount: amount, Rest: t.budget != nil})
		}
	}
	return list
}

// Let books the call against all its limits, which have let it in. It reports whether somebody
// still waits for it.
func (c *SharedCall) Let(now time.Time, v parts.Verdict) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, n := range v.Given { // even if nobody waits: the store counts it as used
		c.takes[i].known(n)
	}
	if c.state != asking {
		return false
	}
	c.verdict = v
	c.tab.let(now, c.spend, c.given)
	c.decide(letIn)
	return true
}

// given is how much of a budget the call was let in with, in the books' units. If the answer does
// not say, it is what the call asked for.
func (c *SharedCall) given(a *account) int64 {
	for i, t := range c.takes {
		if t.budget == a && i < len(c.verdict.Given) {
			return a.units(c.verdict.Given[i])
		}
	}
	return min(a.units(c.spend[a.Unit]), a.limit())
}

// Refuse says that the call was not let in, and why. Apply the answer to its limits first: the
// refusal is explained by what others use.
func (c *SharedCall) Refuse(v parts.Verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == asking {
		c.verdict = v
		c.decide(refused)
	}
}

// Lose says that nobody answered.
func (c *SharedCall) Lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == asking {
		c.decide(lost)
	}
}

func (c *SharedCall) decide(state consulted) {
	c.state = state
	close(c.decided)
}
