package governor

import (
	"cmp"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/lengths"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/record"
	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lib/muldiv"
)

// Of some calls nobody knows more than the tenant's own program tells (Request.Told), which can tell what it likes. In the limits and budgets
// of that tenant all of it counts. In those that others share it counts up to what the tenant could have taken: what it asked for, so far as its
// limits and budgets, and those of the tenants above it, let a call take that. Others learn nothing from it.

// belief is how far it is believed what a call took. The zero belief believes all.
type belief struct {
	by   string      // the tenant; "" is believed
	most terms.Spend // the largest amounts that are booked in the budgets of others
	each limits.Cost // the largest costs that are booked in their limits
}

// spend is the part of a spend that the books of others get.
func (t *belief) spend(s terms.Spend) terms.Spend {
	if t.by != "" {
		for k := range s {
			s[k] = min(s[k], t.most[k])
		}
	}
	return s
}

// tokens is the part of some tokens that the books of others get.
func (t *belief) tokens(n int64) int64 { return t.spend(terms.Spend{UnitTokens: n})[UnitTokens] }

// cost is the part of a cost that the limits of others get.
func (t *belief) cost(c limits.Cost) limits.Cost {
	if t.by == "" {
		return c
	}
	for k := limits.Tokens; int(k) < limits.Kinds; k++ {
		c[k] = min(t.tokens(c[k]), t.each[k])
	}
	return c
}

// bound bounds a call of which its tenant tells by what its pool and the limits of its chain let a call take, and by what is left of their
// budgets.
func (c *call) bound() {
	b := c.holds
	cost := b.cost
	for k, most := range largest(&c.pool.cfg) {
		cost[k] = min(cost[k], most)
	}
	left := terms.Spend{record.MaxUse, 1, record.MaxUse}
	if !b.shadow { // limits that are not enforced bound nothing
		for i := range b.chain {
			b.chain[i].own.bound(c.now, &cost, &left)
		}
	}
	cost[limits.Tokens] = min(cost[limits.Tokens], cost[limits.Input]+cost[limits.Output])
	usd := c.req.mostUSD()
	if cost[limits.Tokens] < b.cost[limits.Tokens] {
		usd = muldiv.Floor(usd, cost[limits.Tokens], b.cost[limits.Tokens])
	}
	b.cost = cost
	b.belief = belief{by: c.tenant.name, most: left, each: cost}
	b.belief.most = b.belief.spend(terms.Spend{cost[limits.Tokens], 1, usd})
}

// largest is what the largest call of a pool may take: a minute of the pool, and of its largest upstream.
func largest(c *Pool) (most limits.Cost) {
	bounded := func(limit int64) int64 { return cmp.Or(limit, record.MaxUse) }
	for k, limit := range terms.Minute(c) {
		at := int64(0)
		for i := range c.Upstreams {
			at = max(at, bounded(c.Upstreams[i].Limits().Minute[k]))
		}
		most[k] = min(bounded(limit), bounded(at))
	}
	return most
}

// bound lowers a cost to that of the largest call that fits into empty limits, and left to what is left of budgets. A budget of which nothing
// is left is to refuse the call.
func (o *ownLimits) bound(now time.Time, cost *limits.Cost, left *terms.Spend) {
	for k := range limits.Axis(limits.Timed) {
		if limit := o.set.Limit(k); limit > 0 {
			kind := o.set.Kind(k)
			cost[kind] = min(cost[kind], limit)
		}
	}
	for _, a := range o.caps {
		left[a.Unit] = min(left[a.Unit], max(1, a.limit()-a.usedByAll(now))*a.scale)
	}
}

// toldMark begins the names of models by which calls are learned of that tenants tell.
const toldMark = "\x00"

// toldKind is the kind of a call of which its tenant tells: its own at all levels, so that others learn nothing from it.
func toldKind(k lengths.Kind) lengths.Kind {
	return lengths.Kind{Tenant: k.Tenant, Tier: k.Tenant, Model: toldMark + k.Tenant + toldMark + k.Model}
}

// modelOf is the model of a kind.
func modelOf(k lengths.Kind) string { return strings.TrimPrefix(k.Model, toldMark+k.Tenant+toldMark) }

// restRecord is what a tenant tells of a call beyond what the books of others get, as a cost of the tenant in no pool. It is the zero
// Record if that is nothing.
func (l *Lease) restRecord(r record.Record) record.Record {
	if r.Took == (record.Charge{}) {
		return record.Record{}
	}
	l.g.calls++
	r.Kind = record.Ended
	r.Call = l.g.calls
	return r
}

// believed bounds a cost on the pool's limits by what a running call is believed.
func (p *pool) believed(h escrow.Handle, cost limits.Cost) limits.Cost {
	if p.escrow.Running(h) {
		return p.leases[h.Slot].holds.belief.cost(cost)
	}
	return cost
}
