package governor

import (
	"math"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/internal/maxmin"
)

// SharedSlots are the slots and budgets of a pool, where these are divided over processes
// (Config.SharedSlots), as seen by whoever talks to the others. They are for one goroutine.
type SharedSlots struct {
	g      *Governor
	p      *pool
	claims []parts.Claim // as last made

	budgets []budgetClaim // what the claims on budgets are about
	told    int           // index in order of the member to be told of next
	toldAt  time.Time     // when members were last told of
	order   []*seat       // seats by name, as of orderOf
	orderOf *claimTree
}

// SharedSlots returns those that have come into use, or lack a slot for a call, since it was last
// called. Those of the same pool are always the same pointer. It is for one goroutine; see
// MoreLimits.
func (g *Governor) SharedSlots() (list []*SharedSlots) {
	if g.commons == nil {
		return nil
	}
	for _, p := range g.commons.takePools() {
		list = append(list, &p.lent.handle)
	}
	return list
}

// Owner names the pool to other processes. No tenant's name contains a space.
func (s *SharedSlots) Owner() string { return "pool " + s.p.name }

// A pool's slots are claimed twice: all of them, and, under this name, those that background calls
// may begin in. A process that has a part of the latter may begin background calls while fewer
// calls than that run there. All calls count, so that of all slots those of the interactive reserve
// stay free.
const slotsBackground = "background"

// Claims tells how many calls run and wait now, and what is used of budgets. busy is true as long
// as the configuration has the pool, or calls run in it: its slots are always spoken for.
func (s *SharedSlots) Claims(now time.Time) (claims []parts.Claim, busy bool) {
	p, there := s.p, s.g.table.Load().pools[s.p.name] != nil
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expireLocked(now)
	s.claims = s.claims[:0]
	if !p.dividedLocked() { // without a claim the store takes the part back
		p.lent.dropLocked()
		return nil, false
	}
	if p.rules.Concurrency > 0 {
		s.slotClaims(now, there)
	} else {
		p.lent.part = 0
		p.lent.open = 0
		p.lent.others = 0
	}
	s.budgetClaims(now, there)
	p.lent.lacks = false
	return s.claims, there || p.escrow.InFlight() > 0
}

// slotClaims adds the claims on slots.
func (s *SharedSlots) slotClaims(now time.Time, there bool) {
	p := s.p
	limit := p.grantedSlots()
	waits, behind := p.lackingSlotsLocked()
	refused := p.refusedLocked(now)
	if p.lent.fenced { // no call can begin here
		waits = 0
		behind = 0
		refused = 0
	}
	all := p.stakesLocked(now, waits > 0)
	all.Name = axisConcurrency
	all.Kind = parts.Slots
	all.Limit = limit
	all.Used, all.Tail = p.escrow.InFlight(), p.lent.longest.tail(now, p.oldestLocked(now)).Milliseconds()
	open := all
	ahead := p.aheadLocked(there)
	want(&all, waits+refused, ahead, p.mostSlotsLocked())
	s.claims = append(s.claims, all)
	if r := p.rules.InteractiveReserve; r > 0 && p.limiter == nil {
		open.Name = slotsBackground
		open.Limit = max(0, limit-r)
		want(&open, behind, ahead, open.Limit)
		s.claims = append(s.claims, open)
	}
}

// aheadLocked is how many slots are wanted in advance, for calls that may come before the next
// beat, beyond those that become free. It is 0 for a pool that is gone.
func (p *pool) aheadLocked(there bool) int64 {
	if !there || p.lent.fenced {
		return 0
	}
	return 1 + p.rules.Concurrency/32 + int64(math.Sqrt(float64(p.escrow.InFlight())))
}

// want fills in what a claim wants: waits are the calls that wait or may come back, ahead is wanted
// in advance, and most is what could be used here at all.
func want(c *parts.Claim, waits, ahead, most int64) {
	firm := max(c.Used, min(c.Used+waits, most))
	c.Want = max(firm, min(firm+ahead, most))
	c.Spare = c.Want - firm
	if firm > c.Used {
		c.Need = c.Used + 1
	}
}

// stakesLocked fills in the weights of a claim: of those who have all they want if the slots here
// are shared by weight (Calm), and of those who do not (Weight).
func (p *pool) stakesLocked(now time.Time, waits bool) (c parts.Claim) {
	var list []maxmin.Claim
	known := int64(0)
	for _, x := range p.tree.claims {
		if x.Parent >= 0 {
			continue
		}
		n := p.escrow.Node(x.ID)
		known += int64(n.Running)
		want := int64(n.Running) + p.lent.again(x.ID, int64(n.Running))
		if waits {
			want += int64(n.Queued)
		}
		if want > 0 {
			list = append(list, maxmin.Claim{ID: len(list), Weight: float64(n.Counts), Demand: float64(want)})
		}
	}
	maxmin.Divide(float64(known), list)
	c.CalmUse = p.escrow.InFlight() - known // slots of nodes that are gone
	for i := range list {
		x := &list[i]
		if x.Share < x.Demand {
			c.Weight += int64(x.Weight)
			continue
		}
		c.Calm += int64(x.Weight)
		c.CalmUse += int64(x.Demand)
	}
	return c
}

// refusedFor is how long a call that was refused for want of a slot is taken to want one.
const refusedFor = 2 * time.Second

// refusedLocked is how many slots are wanted for calls that were refused and may come back.
func (p *pool) refusedLocked(now time.Time) (n int64) {
	for id, r := range p.lent.refused {
		n += p.lent.again(id, int64(p.escrow.Node(id).Running))
		if now.Sub(r.at) >= refusedFor {
			delete(p.lent.refused, id)
		}
	}
	return n
}

// again is how many slots a node wants for its refused calls, where it runs so many. At most as
// many as run: how often calls are refused says little, for each may retry many times.
func (l *lent) again(id escrow.NodeID, running int64) int64 {
	if r := l.refused[id]; r != nil {
		return min(r.calls, max(1, running))
	}
	return 0
}

// lackingSlotsLocked is how many calls wait for a slot, and how many background calls wait for one
// that background calls may use.
func (p *pool) lackingSlotsLocked() (waits, behind int64) {
	first, later := p.escrow.Queued()
	if !p.escrow.HasSlot(true) {
		behind = int64(later)
	}
	if !p.escrow.HasSlot(false) {
		waits = int64(first)
		if open := p.lent.open - p.escrow.InFlight(); p.limiter != nil || p.rules.InteractiveReserve == 0 {
			waits += behind
		} else {
			waits += min(behind, max(0, open))
		}
	}
	return waits, behind
}

// grantedSlots is how many slots there are for all processes that are not cut off.
func (p *pool) grantedSlots() int64 {
	return p.rules.Concurrency - p.rules.withheld(p.rules.Concurrency)
}

// mostSlotsLocked is how many of these could be used here.
func (p *pool) mostSlotsLocked() int64 {
	if p.limiter != nil {
		return min(p.grantedSlots(), p.limiter.Limit())
	}
	return p.grantedSlots()
}

// Apply puts in force the answer to the last claims, which holds until the given time.
func (s *SharedSlots) Apply(now, until time.Time, list []parts.Part) {
	p := s.p
	p.mu.Lock()
	l := p.lent
	l.alone = false
	l.until = until
	for i, c := range s.claims[:min(len(list), len(s.claims))] {
		switch c.Name {
		case slotsBackground:
			l.open = list[i].Part
		case axisConcurrency:
			l.part = list[i].Part
			l.others = list[i].Others
			l.open = l.part // unless background calls are claimed separately
		}
	}
	s.takeBudgetsLocked(now, list)
	l.hear()
	p.expireLocked(now)
	p.narrowLocked()
	s.g.pumpAndUnlock(p, now)
}

// Alone says that nobody answers. Once the part has expired, and until Apply, the pool uses what
// its configuration has for that case.
func (s *SharedSlots) Alone(now time.Time) {
	p := s.p
	p.mu.Lock()
	p.lent.alone = true
	p.lent.hear()
	p.expireLocked(now)
	p.narrowLocked()
	s.g.pumpAndUnlock(p, now)
}

// Rest reports whether nobody needs to speak for the pool any more: nothing of it is divided, or it
// is gone and nothing runs in it.
func (s *SharedSlots) Rest(time.Time) bool {
	p, there := s.p, s.g.table.Load().pools[s.p.name] != nil
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dividedLocked() && (there || p.escrow.InFlight() > 0) {
		return false
	}
	p.lent.inUse = false
	p.lent.dropLocked()
	return true
}
