package gateway

import (
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/lib/affinity"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
)

// A pool's upstreams may have limits of their own. The governor then counts a call at one of them, and there it goes.

// counted is the upstream at which the call is counted; all that it may use, and false, if upstreams have no limits of their
// own.
func (c *call) counted() (there upstreams.Mask, limited bool) {
	if !c.pool.set.Limited() {
		return c.tries.may, false
	}
	name := c.Lease.Upstream()
	if name == "" {
		return c.tries.may, false
	}
	if c.pool.set.Place(name) < 0 {
		c.g.admission.Steady(c.follow) // the upstream came while the call waited
	}
	return c.memberNamed(name), true
}

// lookAgain is how long a call waits at least that found its upstream broken and all others full.
const lookAgain = 250 * time.Millisecond

// choose picks the upstream for the first try of a lease.
func (c *call) choose() upstreams.Choice {
	there, limited := c.counted()
	if !limited {
		return c.pool.set.Choose(time.Now(), c.tries.may, c.tries.scope, c.Tenant.Name, c.tries.of)
	}
	ch := c.tryAt(there)
	if ch.OK {
		return ch
	}
	// It broke, or asked for a pause, since the call was admitted.
	if other := c.move(c.tries.may&^there, governor.Usage{}, false); other != (upstreams.Choice{}) {
		return other
	}
	return ch
}

// chooseNext picks the upstream for a try after one that came to nothing, of which the usage was lost.
func (c *call) chooseNext(said upstreams.Outcome, lost governor.Usage) upstreams.Choice {
	there, limited := c.counted()
	if !limited {
		return c.tries.next(c.pool.set, c.try, c.Tenant.Name, said)
	}
	if c.tries.again(said) {
		if ch := c.tryAt(there); ch.OK {
			return ch
		}
	}
	return c.move(c.tries.may&^c.tries.been, lost, c.try.Sent.Load())
}

// move has the call counted at another upstream that is ready and has room for it. If all of these are full, it is to wait its
// turn again. The zero Choice is that there are none.
func (c *call) move(others upstreams.Mask, lost governor.Usage, sent bool) upstreams.Choice {
	ready := c.pool.set.Ready(time.Now(), others, c.tries.scope, c.Tenant.Name)
	if ready == 0 {
		return upstreams.Choice{}
	}
	name, ok := c.Lease.Move(c.pool.set.Names(ready), lost, sent)
	if !ok {
		return upstreams.Choice{Busy: true, At: time.Now().Add(lookAgain)}
	}
	return c.tryAt(c.memberNamed(name))
}

// passedOn has the call counted where it ran, if its upstream passed it on to a deployment that is another of the pool's upstreams with the same
// key, and has room.
func (c *call) passedOn(deployment string) {
	for i, u := range c.pool.upstreams {
		if u.Account == c.try.up.Account && c.pool.Upstreams[i].ModelName(c.realModel()) == deployment {
			c.Lease.Move([]string{u.Name}, governor.Usage{}, false)
			return
		}
	}
}

// tryAt chooses the upstream at which the call is counted. While that is probed by the call, others do not go there.
func (c *call) tryAt(there upstreams.Mask) upstreams.Choice {
	ch := c.pool.set.Choose(time.Now(), there, c.tries.scope, c.Tenant.Name, affinity.None)
	if ch.Probe {
		c.g.tellHealth(c.pool)
	}
	return ch
}

// memberNamed is the upstream with a name, if the call may use it. Another policy may have come into force.
func (c *call) memberNamed(name string) upstreams.Mask {
	i := c.pool.set.Place(name)
	if i < 0 || c.tries.may&upstreams.Mask(0).With(i) == 0 {
		return c.tries.may
	}
	return upstreams.Mask(0).With(i)
}
