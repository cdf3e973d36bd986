package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
)

// SharedSlots are the slots and budgets of a pool, as seen by whoever divides them over processes
// (Config.SharedSlots): it reads demands, and puts grants in force. They are for one
// goroutine.
type SharedSlots struct {
	// Speaker is whatever those who speak for the slots want to find again.
	Speaker any

	g     *Governor
	p     *pool
	turns turns
}

// SlotsDemand is the demand of this process on a pool's slots and budgets.
type SlotsDemand struct {
	// Divided says that there is anything to divide, and Configured that the configuration still has
	// the pool. Fenced says that no call can begin here, because another process has this one's name.
	Divided, Configured, Fenced bool
	// Slots is how many calls may run at once according to the configuration, and Together how many
	// of these all processes may use that are not cut off. Most of those could be used here at all.
	// If some are Reserved for interactive calls, background calls may take ForBackground of them. If the
	// limit is Adaptive, each process reserves slots of its own; the slots are then those that the processes
	// have found out, of which they tell each other by Note.
	Slots, Together, Most, ForBackground int64
	Reserved, Adaptive                   bool
	Note                                 string
	// Running is how many calls run here, RunningBackground how many of these are background calls, and
	// Tail how long they may go on running if this process is heard of no more.
	Running, RunningBackground int64
	Tail                       time.Duration
	// Waiting calls lack a slot. Background ones lack one that background calls may use. Returning
	// ones were refused for want of a slot and may come back.
	Waiting, Background, Returning int64
	Stakes                         []Stake
	Bands                          []BandDemand
	SoftCap                        SoftCapDemand
	Shares                         []ShareDemand
}

// Stake is the usage and demand of slots here of a group, or of a tenant in none.
type Stake struct {
	Node   escrow.NodeID
	Weight escrow.Weight
	// Running and Queued are its calls. Returning ones were refused for want of a slot and may come
	// back.
	Running, Queued, Returning int64
}

// SlotsGrant is how many of a pool's slots this process may use.
type SlotsGrant struct {
	// Slots is how many calls may run here, and Open how many of these may be background calls.
	// Others is how many run in other processes, and OthersBackground how many of these are background calls.
	Slots, Open, Others, OthersBackground int64
	// Notes are those of other processes.
	Notes []Note
	Bands []BandGrant
	// SoftCap is nil if there is none.
	SoftCap *SoftCapGrant
}

// Note is the SlotsDemand.Note of another process.
type Note = adaptive.Note

// SharedSlots returns those that have come into use, or lack a slot for a call, since it was last
// called. Those of the same pool are always the same pointer. It is for one goroutine; see
// MoreShared.
func (g *Governor) SharedSlots() (list []*SharedSlots) {
	if g.notices == nil {
		return nil
	}
	for _, p := range g.notices.takePools() {
		list = append(list, &p.grants.handle)
	}
	return list
}

// Pool names the pool.
func (s *SharedSlots) Pool() string { return s.p.name }

// configured reports whether the configuration still has the pool.
func (s *SharedSlots) configured() bool { return s.g.table.Load().pools[s.p.name] != nil }

// Claim reads the demand, for a caller that passes all of it on: the record of calls that lacked a grant
// begins anew.
func (s *SharedSlots) Claim(now time.Time) SlotsDemand {
	configured := s.configured()
	p := s.p
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expireLocked(now)
	d := SlotsDemand{Divided: p.dividedLocked(), Configured: configured, Fenced: p.grants.fenced, Running: p.escrow.InFlight()}
	if !d.Divided { // nothing is claimed, and so nothing granted
		p.grants.dropLocked()
		return d
	}
	if p.rules.Concurrency > 0 {
		p.slotsDemandLocked(now, &d)
	} else {
		p.grants.SlotsGrant = SlotsGrant{}
	}
	d.Shares = s.sharesLocked(now, configured && !d.Fenced)
	p.grants.lacks = false
	return d
}

// slotsDemandLocked fills in the demand of slots.
func (p *pool) slotsDemandLocked(now time.Time, d *SlotsDemand) {
	d.Slots = p.slotLimitLocked()
	d.Together = p.togetherLocked()
	d.Most = p.mostSlotsLocked()
	d.Reserved = p.rules.InteractiveReserve > 0
	d.ForBackground = p.forBackground(d.Together).Most
	d.Adaptive = p.limiter != nil
	if p.limiter != nil {
		p.tellLocked(now, d)
	}
	d.Tail = p.grants.longest.tail(now, p.oldestLocked(now))
	d.RunningBackground = p.escrow.InBackground()
	d.Waiting, d.Background = p.lackingSlotsLocked()
	d.Returning = p.returningLocked(now)
	for _, x := range p.claims.tree.nodes {
		if x.up != escrow.Root {
			continue
		}
		n := p.escrow.Node(x.id)
		d.Stakes = append(d.Stakes, Stake{
			Node: x.id, Weight: n.Counts, Running: int64(n.Running), Queued: int64(n.Queued),
			Returning: p.grants.returning(x.id, int64(n.Running)),
		})
	}
	p.bandsDemandLocked(d)
	p.softCapDemandLocked(d)
}

// tellLocked fills in the note of an adaptive limit. While this process does not know the limit of the others, it
// does not stand against theirs.
func (p *pool) tellLocked(now time.Time, d *SlotsDemand) {
	note, limit := p.limiter.Tell(now)
	d.Note = note
	if limit == 0 {
		d.Together = p.rules.Concurrency - p.rules.withheld(p.rules.Concurrency)
	}
}

// refusedFor is how long a call that was refused for want of a slot is taken to want one.
const refusedFor = 2 * time.Second

// returningLocked is how many slots are wanted for calls that were refused and may come back.
func (p *pool) returningLocked(now time.Time) (n int64) {
	for id, r := range p.grants.refused {
		n += p.grants.returning(id, int64(p.escrow.Node(id).Running))
		if now.Sub(r.at) >= refusedFor {
			delete(p.grants.refused, id)
		}
	}
	return n
}

// returning is how many slots a node wants for its refused calls, if it runs so many. At most as many
// as run: how often calls are refused says little, for each may retry many times.
func (l *poolGrants) returning(id escrow.NodeID, running int64) int64 {
	if r := l.refused[id]; r != nil {
		return min(r.calls, max(1, running))
	}
	return 0
}

// lackingSlotsLocked is how many calls wait for a slot, and how many background calls wait for one
// that background calls may use.
func (p *pool) lackingSlotsLocked() (waiting, background int64) {
	first, later := p.escrow.Queued()
	open := int64(later)
	if p.limiter == nil && p.rules.InteractiveReserve > 0 {
		open = min(open, max(0, p.grants.Open-p.escrow.InBackground()))
		background = int64(later) - open
	}
	if p.escrow.HasSlot(escrow.Root, false) {
		return 0, background
	}
	return int64(first) + open, background
}

// togetherLocked is how many slots there are for all processes that are not cut off.
func (p *pool) togetherLocked() int64 {
	limit := p.slotLimitLocked()
	return limit - p.rules.withheld(limit)
}

// mostSlotsLocked is how many of these could be used here.
func (p *pool) mostSlotsLocked() int64 { return p.togetherLocked() }

// Allow puts grants in force until the given time: of slots, nil if these are not divided, and of
// budgets, as they were claimed.
func (s *SharedSlots) Allow(now, until time.Time, slots *SlotsGrant, shares []ShareGrant) {
	p := s.p
	p.mu.Lock()
	p.grants.alone = false
	p.grants.until = until
	if slots != nil {
		p.grants.SlotsGrant = *slots
		if p.limiter != nil {
			_, used := p.slotsLocked()
			p.limiter.Hear(now, slots.Notes, used)
		}
	}
	allowShares(now, shares)
	p.grants.hear()
	p.expireLocked(now)
	p.narrowLocked()
	p.noteOutageLocked(now)
	s.g.pumpAndUnlock(p, now)
}

// Alone says that nobody answers. Once the grants have expired, and until Allow, the pool goes by
// its configuration for that case (Pool.OnLoss).
func (s *SharedSlots) Alone(now time.Time) {
	p := s.p
	p.mu.Lock()
	p.grants.alone = true
	if p.limiter != nil {
		p.limiter.Alone()
	}
	p.grants.hear()
	p.expireLocked(now)
	p.narrowLocked()
	p.noteOutageLocked(now)
	s.g.pumpAndUnlock(p, now)
}

// Rest reports whether nobody needs to speak for the pool any more: nothing of it is divided, or it
// is gone and nothing runs in it.
func (s *SharedSlots) Rest() bool {
	configured := s.configured()
	p := s.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dividedLocked() && (configured || p.escrow.InFlight() > 0) {
		return false
	}
	p.grants.inUse = false
	p.grants.dropLocked()
	return true
}
