package governor

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/federation/parts"
)

// SharedSlots are the calls at once, and the budgets, of a pool where these are split over processes
// (Config.SharedSlots), for who speaks for them with the others. They are for one goroutine.
type SharedSlots struct {
	g      *Governor
	p      *pool
	claims []parts.Claim // the last

	budgets []budgetClaim // what claims on budgets are of
	told    int           // of the members, the next to be told of
	toldAt  time.Time     // when members were told of last
	order   []*seat       // as of
	orderOf *claimTree
}

// SharedSlots are those that have come into use, or of which a call lacks one, since this was
// asked last. The same pool's are always the same pointer. MoreLimits takes a word when there
// are some. It is for one goroutine.
func (g *Governor) SharedSlots() (list []*SharedSlots) {
	if g.commons == nil {
		return nil
	}
	for _, p := range g.commons.takePools() {
		list = append(list, &p.lent.handle)
	}
	return list
}

// Owner names the slots to other processes. No tenant's name has a space.
func (s *SharedSlots) Owner() string { return "pool " + s.p.name }

// The claims on a pool's slots: on all of them, and on those that background calls may have.
// Who has a part of the latter may begin background calls while fewer run there than that; all
// that run count, so that of all slots those that are for interactive calls stay free.
const slotsBackground = "background"

// Claims tells how many calls run and wait, as of now. Somebody speaks for the slots at all times.
func (s *SharedSlots) Claims(now time.Time) (claims []parts.Claim, busy bool) {
	p, there := s.p, s.g.table.Load().pools[s.p.name] != nil
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expireLocked(now)
	s.claims = s.claims[:0]
	if !p.lendsLocked() { // of which the store learns that the part is left
		p.lent.dropLocked()
		return nil, false
	}
	if p.rules.Concurrency > 0 {
		s.slotClaims(now, there)
	} else {
		p.lent.part, p.lent.open, p.lent.others = 0, 0, 0
	}
	s.budgetClaims(now, there)
	p.lent.lacks = false
	return s.claims, there || p.escrow.InFlight() > 0
}

// slotClaims adds those on slots.
func (s *SharedSlots) slotClaims(now time.Time, there bool) {
	p := s.p
	limit := p.grantedSlots()
	waits, behind := p.lackingSlotsLocked()
	refused := p.refusedLocked(now)
	if p.lent.fenced { // none of them can begin here
		waits, behind, refused = 0, 0, 0
	}
	all := p.stakesLocked(now, waits > 0)
	all.Name, all.Kind, all.Limit = axisConcurrency, parts.Slots, limit
	all.Used, all.Tail = p.escrow.InFlight(), p.lent.longest.tail(now, p.oldestLocked(now)).Milliseconds()
	open, ahead := all, p.aheadLocked(there)
	want(&all, waits+refused, ahead, p.mostSlotsLocked())
	s.claims = append(s.claims, all)
	if r := p.rules.InteractiveReserve; r > 0 && p.limiter == nil {
		open.Name, open.Limit = slotsBackground, max(0, limit-r)
		want(&open, behind, ahead, open.Limit)
		s.claims = append(s.claims, open)
	}
}

// aheadLocked is how many slots are wanted for calls that may come before the next beat, beside
// those that end: of a pool that is gone none.
func (p *pool) aheadLocked(there bool) int64 {
	if !there || p.lent.fenced {
		return 0
	}
	return 1 + p.rules.Concurrency/32 + int64(math.Sqrt(float64(p.escrow.InFlight())))
}

// want completes a claim, where so many calls wait and may come, and most could run here at all.
func want(c *parts.Claim, waits, ahead, most int64) {
	firm := max(c.Used, min(c.Used+waits, most))
	c.Want = max(firm, min(firm+ahead, most))
	if c.Spare = c.Want - firm; firm > c.Used {
		c.Need = c.Used + 1
	}
}

// stakesLocked is what a claim says of who asks: those who have all they want, if the slots that
// are here go by weight, and those who do not.
func (p *pool) stakesLocked(now time.Time, waits bool) (c parts.Claim) {
	var list []slotStake
	known, slots := int64(0), p.escrow.InFlight()
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
			list = append(list, slotStake{want, int64(n.Counts)})
			c.Weight += int64(n.Counts)
		}
	}
	slices.SortFunc(list, func(a, b slotStake) int { return cmp.Compare(a.want*b.weight, b.want*a.weight) })
	c.CalmUse = slots - known // of those who are gone
	slots = known
	for _, x := range list {
		if float64(x.want) > float64(slots)*(float64(x.weight)/float64(c.Weight)) {
			break
		}
		slots -= x.want
		c.CalmUse, c.Calm, c.Weight = c.CalmUse+x.want, c.Calm+x.weight, c.Weight-x.weight
	}
	return c
}

// slotStake is how many slots somebody wants, and with what weight.
type slotStake struct{ want, weight int64 }

// refusedFor is for how long who was refused for want of a slot is taken to want one.
const refusedFor = 2 * time.Second

// refusedLocked is how many slots are wanted for calls that were refused, and may come back.
func (p *pool) refusedLocked(now time.Time) (n int64) {
	for id, r := range p.lent.refused {
		n += p.lent.again(id, int64(p.escrow.Node(id).Running))
		if now.Sub(r.at) >= refusedFor {
			delete(p.lent.refused, id)
		}
	}
	return n
}

// again is how many slots somebody wants who was refused. How often says little: no more than run.
func (l *lent) again(id escrow.NodeID, running int64) int64 {
	if r := l.refused[id]; r != nil {
		return min(r.calls, max(1, running))
	}
	return 0
}

// lackingSlotsLocked is how many calls wait for a slot; and how many of those in the background
// for one that these may have.
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

// Apply puts in force what the process may have until then, in answer to the last claims.
func (s *SharedSlots) Apply(now, until time.Time, list []parts.Part) {
	p := s.p
	p.mu.Lock()
	l := p.lent
	l.alone, l.until = false, until
	for i, c := range s.claims[:min(len(list), len(s.claims))] {
		switch c.Name {
		case slotsBackground:
			l.open = list[i].Part
		case axisConcurrency:
			l.part, l.others = list[i].Part, list[i].Others
			l.open = l.part // unless it is told
		}
	}
	s.takeBudgetsLocked(now, list)
	l.hear()
	p.expireLocked(now)
	p.narrowLocked()
	s.g.pumpAndUnlock(p, now)
}

// Alone says that nobody answers. From the time on that the part expires, and until there is an
// answer again, the pool uses what its configuration has for then.
func (s *SharedSlots) Alone(now time.Time) {
	p := s.p
	p.mu.Lock()
	p.lent.alone = true
	p.lent.hear()
	p.expireLocked(now)
	p.narrowLocked()
	s.g.pumpAndUnlock(p, now)
}

// Rest reports whether nobody needs to speak for them: the pool has no limit on them any more, or is
// gone, and nothing runs in it.
func (s *SharedSlots) Rest(time.Time) bool {
	p, there := s.p, s.g.table.Load().pools[s.p.name] != nil
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lendsLocked() && (there || p.escrow.InFlight() > 0) {
		return false
	}
	p.lent.inUse = false
	p.lent.dropLocked()
	return true
}
