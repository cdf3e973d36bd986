package governor

import (
	"context"
	"sync"
	"time"

	"github.com/llmgov/llmgov/federation/parts"
)

// LimitsMode is how the calls of a pool are counted against their tenants' own limits, where
// these are kept together with other processes (Config.SharedLimits).
type LimitsMode uint8

const (
	// LimitsLeased lets calls go while they fit into the parts that the process has.
	LimitsLeased LimitsMode = iota
	// LimitsCachedDeny is LimitsStrict, but while it is known of a limit that it has no room,
	// nobody is asked.
	LimitsCachedDeny
	// LimitsStrict asks for each call whether it may go.
	LimitsStrict
)

// askWait is how long a call waits to be told whether it may go, whatever its tenant's max_wait,
// from when those were answered who asked before it. Then the pool does what its configuration has
// for when nobody can say (Pool.OnLoss).
const askWait = 50 * time.Millisecond

// consults reports whether calls to a pool ask others before they go.
func (g *Governor) consults(p *poolView) bool {
	return g.commons != nil && p.cfg.TenantLimits != LimitsLeased
}

// consulted is what came of a SharedCall.
type consulted int

const (
	asking  consulted = iota // and not answered
	letIn                    // it is booked in all limits
	refused                  // some limit has no room for it
	lost                     // nobody answers
	left                     // its caller does not wait any more
)

// SharedCall is a call that asks whether it may go, for who can ask those who keep the limits.
// It goes if all limits that hold for it let it in, and is booked in all or none.
type SharedCall struct {
	tab    *tab
	spend  Spend
	limits []*SharedLimits

	decided chan struct{} // closed when it is
	most    time.Time     // until when others may go before it

	mu      sync.Mutex // guards what follows, and the tab until it is decided
	state   consulted
	since   time.Time // when nobody asked before it any more, or the last of these was answered
	takes   []take    // of limits, in the order in which they were told
	verdict parts.Verdict
}

// take is what a call takes of one limit: on an axis, or of a budget.
type take struct {
	link   *link
	axis   int
	budget *account // nil of an axis
}

// consult asks, and waits for the answer, but not longer than askWait once it is its turn. That
// may take until most.
func (g *Governor) consult(ctx context.Context, b *tab, s Spend, most time.Time) *SharedCall {
	now := g.clock.Now()
	c := &SharedCall{tab: b, spend: s, decided: make(chan struct{}), since: now, most: most}
	for i := range b.chain {
		if b.chain[i].q.speaks() {
			c.limits = append(c.limits, &b.chain[i].q.common.handle)
		}
	}
	if len(c.limits) == 0 { // nobody need be asked
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

// hears waits for the answer to a call so long, and reports whether it has come, or nobody waits
// for it any more.
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

// lateAt is when nobody has answered the call for too long.
func (c *SharedCall) lateAt() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since.Add(askWait)
}

// Next says that calls that had asked before this one were answered just now.
func (c *SharedCall) Next(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = earlier(now, c.most)
}

// give ends the wait for an answer, if there is none yet.
func (c *SharedCall) give(state consulted) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == asking {
		c.state = state
	}
}

// speaks reports whether the quota limits anything, and says that it is in use if so.
func (q *quota) speaks() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.limitedLocked() {
		return false
	}
	q.common.inUse = true
	return true
}

// Limits are those that hold for the call.
func (c *SharedCall) Limits() []*SharedLimits { return c.limits }

// Gone reports whether nobody waits for the call any more.
func (c *SharedCall) Gone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state != asking
}

// Takes are what the call takes of the last claims of one of its limits, which are those of a
// beat.
func (c *SharedCall) Takes(s *SharedLimits, beat int) (list []parts.Take) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != asking {
		return nil
	}
	for i := range c.tab.chain {
		if k := &c.tab.chain[i]; k.q == s.q {
			return c.takesOf(k, s.claims, beat)
		}
	}
	return nil
}

// takesOf adds what the call takes of a quota, as far as that was claimed.
func (c *SharedCall) takesOf(k *link, claims []parts.Claim, beat int) (list []parts.Take) {
	q := k.q
	q.mu.Lock()
	defer q.mu.Unlock()
	cost := q.clipLocked(c.tab.cost)
	for i := range claims {
		t, amount, known := take{link: k}, int64(0), false
		switch name := claims[i].Name; claims[i].Kind {
		case parts.Period:
			for _, a := range q.caps {
				if a.periodName() == name {
					t.budget, known = a, true
					amount = min(a.units(c.spend[a.Unit]), a.limit()) * a.scale
				}
			}
		case parts.Slots:
			t.axis, amount, known = ownAxes, 1, true
		default:
			for axis, of := range ownAxisName {
				if of == name {
					t.axis, amount, known = axis, cost[axis], true
				}
			}
		}
		if known {
			c.takes = append(c.takes, t)
			list = append(list, parts.Take{Beat: beat, Claim: i, Amount: amount, Rest: t.budget != nil})
		}
	}
	return list
}

// Let books the call in all its limits, which let it in, and reports whether it is still there
// to go.
func (c *SharedCall) Let(now time.Time, v parts.Verdict) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, n := range v.Given { // also for who is gone: it is known elsewhere as used
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

// given is how much of a budget the call was let in with, in its books' units: what it asked
// for, if that is not known.
func (c *SharedCall) given(a *account) int64 {
	for i, t := range c.takes {
		if t.budget == a && i < len(c.verdict.Given) {
			return a.units(c.verdict.Given[i])
		}
	}
	return min(a.units(c.spend[a.Unit]), a.limit())
}

// Refuse says that the call was not let in, and why. Then its limits know what others use.
func (c *SharedCall) Refuse(v parts.Verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == asking {
		c.verdict = v
		c.decide(refused)
	}
}

// Lose says that nobody answers.
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
