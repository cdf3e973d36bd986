package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/placement"
)

// Quota is one axis as a caller sees it: the limit on it that leaves least.
type Quota struct {
	Limit, Remaining int64
	// Reset is how long it takes until all of it is free again, if nothing more is used.
	Reset time.Duration
}

// Standing is where a tenant stands in a pool. An axis without a limit has a
// Limit of 0. Tokens are of all kinds: input and output, which are there by themselves as well, and both together.
type Standing struct{ Requests, Tokens, Input, Output, Concurrent Quota }

// tighten replaces the quotas of a kind of cost by another limit if that leaves less.
func (st *Standing) tighten(kind limits.Axis, limit, used int64, reset time.Duration) {
	if kind == limits.Requests {
		st.Requests.tighten(limit, used, reset)
		return
	}
	st.Tokens.tighten(limit, used, reset)
	switch kind {
	case limits.Input:
		st.Input.tighten(limit, used, reset)
	case limits.Output:
		st.Output.tighten(limit, used, reset)
	}
}

// Standing reports, for each axis, the limit that leaves least: of the tenant, of those above it,
// and of the pool. Without a pool's name it reports limits over all pools. Unknown names have
// no limits.
func (g *Governor) Standing(tenant, pool string) Standing {
	var st Standing
	now := g.look()
	defer g.unlock()
	tb := g.table
	v := tb.look(now, tenant)
	if v != nil {
		tb = v.table
	}
	p := tb.pools[pool]
	if p != nil {
		at := (*seat)(nil)
		if v != nil {
			at = v.access[p.index].seat
		}
		p.slots.Expire(now)
		s := p.books(now)
		slots, running := p.slots.InUse()
		if at != nil {
			may, runs := p.escrow.Restriction(&escrow.Call{Leaf: at.leaf, Via: p.upstreams.Mask(0)})
			st.Concurrent.tighten(may, runs, 0)
		}
		for k, of := range placement.Axes {
			a := s.Axes[k]
			st.tighten(of, a.Limit, a.Used, a.FullAt.Sub(now))
		}
		st.Concurrent.tighten(slots, running, 0)
	}
	if v == nil {
		return st
	}
	if p != nil && v.present(p) {
		for _, k := range v.seenChain(now, p) {
			k.own.tighten(now, &st)
		}
		return st
	}
	for ; v != nil; v = v.parent {
		over, _ := v.seen(now, "")
		over.tighten(now, &st)
	}
	return st
}

// tighten replaces axes of st by own limits that leave less.
func (o *ownLimits) tighten(now time.Time, st *Standing) {
	o.advance(now)
	for k := range limits.Concurrency {
		if o.set.Limit(k) == 0 {
			continue
		}
		st.tighten(o.set.Kind(k), o.set.Limit(k), o.set.Used(k), o.set.FullAt(k).Sub(now))
	}
	st.Concurrent.tighten(o.set.Limit(limits.Concurrency), o.set.Used(limits.Concurrency), 0)
}

// tighten replaces q by another limit if that leaves less.
func (q *Quota) tighten(limit, used int64, reset time.Duration) {
	if limit <= 0 {
		return
	}
	if left := max(0, limit-used); q.Limit == 0 || left < q.Remaining {
		*q = Quota{Limit: limit, Remaining: left, Reset: max(0, reset)}
	}
}
