package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/fairness"
	"github.com/llmgov/llmgov/escrow/slots"
)

// configure puts a table's configuration of the pool in force, by its plan. Call pump afterwards.
func (p *poolView) configure(now time.Time, tb *table, pl *plan, zone *time.Location, r *recall, shared bool) {
	rules := p.cfg.Escrow()
	rules.Burst = pl.burst
	rules.Shared = shared
	forgives := p.rules.PerTenant && !p.cfg.PerTenant
	p.rules = p.cfg
	p.pool.weights = p.weights
	if rules != p.base {
		p.rates.era++
	}
	if pl.changes() || rules != p.base { // floors are parts of the limit
		p.measure.stale = true
	}
	p.base = rules
	if p.escrow == nil {
		p.escrow = escrow.New(now, rules)
		p.set = rules
		p.tree.escrow = p.escrow
		p.slots = slots.New(p.escrow, p.grants != nil)
		if p.grants != nil {
			p.grants.slots = p.slots
		}
	}
	p.slots.Configure(p.slotRules())
	if forgives {
		for _, seat := range p.seats {
			p.escrow.Forgive(seat.leaf)
		}
	}
	p.configureUpstreams(now)
	p.limit(now)
	p.tree.plant(pl)
	if shared {
		p.tree.list()
		p.slots.Plant(p.tree.shared.slotNodes())
	}
	p.seatAll(now, pl)
	p.split(now, tb, zone, r)
	p.announce()
}

// whole is the seat of the tenant of a seat, of which that may be a member's.
func (s *seat) whole() *seat {
	if s.of != nil {
		return s.of
	}
	return s
}

// left reports whether the seat, or its tenant's, was given up.
func (s *seat) left() bool { return s.gone || s.whole().gone }

// present is the seat that the tenant of a seat has now; nil if it has none any more.
func (p *pool) present(at *seat) *seat {
	at = at.whole()
	if at.gone {
		return p.seats[at.tenant]
	}
	return at
}

// burst is how much of an idle pool may be used at once, as time: the whole minute if only one
// tenant may use it, since there is nobody to be unfair to.
func (tb *table) burst(p *poolView) time.Duration {
	users := 0
	for _, v := range tb.inOrder.tenants {
		if v.calls(p) {
			users++
		}
		if users > 1 {
			break
		}
	}
	if users == 1 {
		return escrow.Window
	}
	return p.cfg.Burst
}

// seatAll gives seats to those tenants that have none at their leaves, and takes those of tenants that have left.
func (p *poolView) seatAll(now time.Time, pl *plan) {
	for _, v := range pl.seats {
		at := p.tree.present[v.leafName()]
		old := p.seats[v.tenant]
		st := &seat{tenant: v.tenant, leaf: at.id, round: p.tree.round, measured: fairness.NewLeaf(p.escrow.Account(at.id))}
		if old != nil {
			p.escrow.Forgive(old.leaf) // because the leaf may be another seat's later
			old.gone = true
			st.members = old.members
			st.cached = old.cached
		}
		at.seat = st
		p.seats[v.tenant] = st
		v.access[p.index].seat = st
	}
	for _, st := range pl.left {
		if p.seats[st.tenant] != st {
			continue
		}
		delete(p.seats, st.tenant)
		p.escrow.Forgive(st.leaf)
		st.gone = true
		for i, m := range st.members {
			p.shares[i].split.Remove(now, m)
		}
	}
}
