package governor

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/fairness"
	"github.com/llmgov/llmgov/escrow/slots"
)

// configureLocked puts a table's configuration of the pool in force. Call pumpAndUnlock afterwards.
func (p *poolView) configureLocked(now time.Time, tb *table, zone *time.Location, r *recall, shared bool) {
	rules := p.cfg.escrow(tb.burst(p))
	rules.Shared = shared
	p.rules = p.cfg
	p.base = rules
	if p.escrow == nil {
		p.escrow = escrow.New(now, rules)
		p.set = rules
		p.claims.escrow = p.escrow
		p.slots = slots.New(p.escrow, p.grants != nil)
		if p.grants != nil {
			p.grants.slots = p.slots
		}
	}
	p.slots.Configure(p.slotRules())
	if !p.rules.PerTenant {
		for _, seat := range p.seats {
			p.escrow.Forgive(seat.leaf)
		}
	}
	p.configureUpstreamsLocked(now)
	p.limitLocked(now)
	p.claims.plant(p, tb)
	if shared {
		p.claims.list()
		p.slots.Plant(p.claims.tree.slotNodes())
	}
	p.seatLocked(now, tb)
	p.viewLocked()
	p.splitLocked(now, tb, zone, r)
	p.announceLocked()
}

// present is the seat that the tenant of a seat has now; nil if it has none any more.
func (p *pool) present(at *seat) *seat {
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
	}
	if users == 1 {
		return escrow.Window
	}
	return p.cfg.Burst
}

// seatLocked gives the tenants their seats. Those whose leaf is the same keep their seats.
func (p *poolView) seatLocked(now time.Time, tb *table) {
	old := p.seats
	p.seats = make(map[*tenant]*seat, len(old))
	for _, v := range tb.inOrder.tenants {
		if !v.calls(p) {
			continue
		}
		leaf := p.claims.present[claimName{callsClaim, v.name}].id
		st := old[v.tenant]
		switch {
		case st == nil:
			st = &seat{tenant: v.tenant, leaf: leaf, measured: fairness.NewLeaf(p.escrow.Account(leaf))}
		case st.leaf != leaf:
			p.escrow.Forgive(st.leaf) // because the leaf may be another seat's later
			st.gone = true
			st = &seat{tenant: v.tenant, leaf: leaf, members: st.members, cached: st.cached, measured: fairness.NewLeaf(p.escrow.Account(leaf))}
		}
		delete(old, v.tenant)
		p.seats[v.tenant] = st
		v.access[p.index].seat = st
	}
	for _, st := range slices.SortedFunc(maps.Values(old), func(a, b *seat) int { return cmp.Compare(a.leaf, b.leaf) }) {
		p.escrow.Forgive(st.leaf)
		st.gone = true
		for i, m := range st.members {
			p.shares[i].split.Remove(now, m)
		}
	}
}
