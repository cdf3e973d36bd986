package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/slots"
)

// SharedSlots returns those that have come into use, or lack a slot for a call, since it was last
// called. Those of the same pool are always the same pointer. It is for one goroutine; see
// MoreShared.
func (g *Governor) SharedSlots() (list []*SharedSlots) {
	if g.changes == nil {
		return nil
	}
	g.lock()
	defer g.unlock()
	for _, p := range taken(g.changes.pools) {
		list = append(list, &p.grants.handle)
	}
	return list
}

// Pool names the pool.
func (s *SharedSlots) Pool() string { return s.p.name }

// configured reports whether the configuration still has the pool.
func (s *SharedSlots) configured() bool { return s.g.table.pools[s.p.name] != nil }

// Claim reads the demand on the pool's slots, and on its budgets and members' shares of these, for a caller that passes all of it on: the
// record of calls that lacked a grant begins anew.
func (s *SharedSlots) Claim(now time.Time) (slots.Demand, []limits.Demand) {
	s.g.lock()
	defer s.g.unlock()
	t := Told{Verb: slotsClaim, Now: s.g.line.since(now)}
	if s.g.recorded && s.p.slots.Limiter != nil {
		t.Name = s.p.slots.Limiter.ID()
	}
	s.told(t)
	return s.claim(now)
}

// told queues what was told of the pool.
func (s *SharedSlots) told(t Told) {
	t.Pool = s.p.name
	s.g.queueTold(t)
}

func (s *SharedSlots) claim(now time.Time) (slots.Demand, []limits.Demand) {
	configured := s.configured()
	p := s.p
	p.slots.Expire(now)
	if !p.divided() { // nothing is claimed, and so nothing granted
		p.slots.Drop()
		return slots.Demand{}, nil
	}
	p.grants.lacks = false
	d := p.slots.Demand(now, p.oldest(now))
	d.Configured = configured
	d.Expect = p.rules.ExpectNodes
	return d, s.turns.demands(now, p, configured && !d.Fenced)
}

// TellAll has the next Claim begin with the first members anew, as all processes do: what only some tell of members counts as if the
// others had used more.
func (s *SharedSlots) TellAll() {
	s.turns.at = time.Time{}
	s.turns.next = 0
}

// Allow puts grants in force until the given time: of slots, nil if these are not divided, and of
// budgets.
func (s *SharedSlots) Allow(now, until time.Time, grant *slots.Grant, list []Grant) {
	s.g.lock()
	defer s.g.unlock()
	s.told(Told{Verb: slotsAllow, Now: s.g.line.since(now), Until: s.g.line.since(until), Slots: grant, Parts: list})
	s.allow(now, until, grant, list)
}

func (s *SharedSlots) allow(now, until time.Time, grant *slots.Grant, list []Grant) {
	p := s.p
	p.slots.Allow(now, until, grant)
	for _, a := range p.shares {
		a.allow(now, list)
	}
	s.heard(now)
	s.g.pump(p, now)
}

// Alone says that nobody answers. Once the grants have expired, and until Allow, the pool goes by
// its configuration for that case (Pool.OnLoss).
func (s *SharedSlots) Alone(now time.Time) {
	s.g.lock()
	defer s.g.unlock()
	s.told(Told{Verb: slotsAlone, Now: s.g.line.since(now)})
	s.leaveAlone(now)
}

func (s *SharedSlots) leaveAlone(now time.Time) {
	p := s.p
	p.slots.Alone(now)
	s.heard(now)
	s.g.pump(p, now)
}

// heard passes on that grants have come, or that none will.
func (s *SharedSlots) heard(now time.Time) {
	s.p.grants.hear()
	s.g.noteOutage(s.p, now)
}

// Rest reports whether nobody needs to speak for the pool any more: nothing of it is divided, or it
// is gone and nothing runs in it.
func (s *SharedSlots) Rest() bool {
	s.g.lock()
	defer s.g.unlock()
	configured := s.configured()
	p := s.p
	if p.divided() && (configured || p.escrow.InFlight() > 0) {
		return false
	}
	s.told(Told{Verb: slotsRest})
	s.rest()
	return true
}

func (s *SharedSlots) rest() {
	s.p.grants.inUse = false
	s.p.slots.Drop()
}
