package federation

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// manner is how callers behave: how long they are ready to wait, and what they do when they
// are refused.
type manner struct {
	wait  time.Duration
	pause time.Duration // until they ask again, whatever they are told
	count bool          // they count their retries, as SDKs do
	whole bool          // they know only of whole seconds
}

var (
	patient = manner{wait: time.Hour}
	sdk     = manner{wait: 2 * time.Second, count: true}
	polite  = manner{wait: 2 * time.Second}
	plain   = manner{wait: 2 * time.Second, whole: true}
	denied  = manner{count: true}
	hammer  = manner{wait: 2 * time.Second, pause: 50 * time.Millisecond}
	spoilt  = manner{pause: 50 * time.Millisecond}
)

// party is n callers of one tenant at one site, each of which asks for one call after the
// other, from a time until another.
type party struct {
	site, leaf, n int
	manner
	run      time.Duration // of a call
	from, to time.Duration
}

// caller is one of a party.
type caller struct {
	party
	at    time.Duration // when it does something
	queue escrow.Handle
	waits bool
	tries int
}

// crowd are callers at the sites of a fleet.
type crowd struct {
	*fleet
	callers []*caller
	waiting []map[escrow.Handle]*caller // by site
	since   time.Duration
	got     [][]int64 // calls since then, by leaf and site
}

// callCost is in tokens.
const callCost = 490

func newCrowd(f *fleet, parties []party) *crowd {
	c := &crowd{fleet: f}
	for _, s := range f.sites {
		c.waiting = append(c.waiting, map[escrow.Handle]*caller{})
		c.got = make([][]int64, len(s.leaves))
	}
	for i := range c.got {
		c.got[i] = make([]int64, len(f.sites))
	}
	for _, p := range parties {
		for range p.n {
			c.callers = append(c.callers, &caller{party: p, at: p.from + time.Duration(c.rng.Int64N(int64(time.Second)))})
		}
	}
	f.pumped = func(site int, h escrow.Handle) {
		x := c.waiting[site][h]
		delete(c.waiting[site], h)
		c.serve(x, h)
	}
	return c
}

func (c *crowd) until(end time.Duration) {
	for c.now < end {
		for _, x := range c.callers {
			if c.now >= x.at {
				c.turn(x)
			}
		}
		c.step()
	}
}

// turn lets a caller ask, or tire of waiting.
func (c *crowd) turn(x *caller) {
	s := c.sites[x.site]
	now := t0.Add(c.now)
	if x.waits {
		delete(c.waiting[x.site], x.queue)
		x.waits = false
		ans, _ := s.pool.Refuse(now, x.queue, 0)
		c.refuse(x, ans)
		return
	}
	if x.to > 0 && c.now > x.to {
		x.at = time.Hour
		return
	}
	call := escrow.Call{Leaf: s.leaves[x.leaf], Most: Amounts{callCost, 1}, MaxWait: x.wait}
	if x.count {
		call.Claim.Retry = escrow.RetryFirst + escrow.Retry(min(x.tries, 1))
	}
	h, ans := s.pool.Offer(now, call)
	switch ans.Verdict {
	case escrow.Admitted:
		c.serve(x, h)
	case escrow.Queued:
		x.waits = true
		x.queue = h
		x.at = c.now + ans.Patience
		c.waiting[x.site][h] = x
	default:
		c.refuse(x, ans)
	}
}

func (c *crowd) refuse(x *caller, ans escrow.Answer) {
	x.tries++
	wait := ans.Wait
	if x.whole {
		wait = (wait + time.Second - 1).Truncate(time.Second)
	}
	if x.pause == 0 {
		x.at = c.now + wait + 5*time.Millisecond + time.Duration(c.rng.Int64N(int64(30*time.Millisecond)))
	} else {
		x.at = c.now + x.pause
	}
}

func (c *crowd) serve(x *caller, h escrow.Handle) {
	s := c.sites[x.site]
	cost := s.pool.CostOf(int(h.Slot))
	c.used = append(c.used, use{c.now, cost[c.axis]})
	if c.now > c.since {
		c.got[x.leaf][x.site]++
	}
	s.pool.Settle(t0.Add(c.now), h, cost)
	x.waits = false
	x.tries = 0
	x.at = c.now + x.run + 10*time.Millisecond + time.Duration(c.rng.Int64N(int64(20*time.Millisecond)))
}
