package tenants

import (
	"slices"

	"github.com/llmgov/llmgov/internal/strictyaml"
)

// Reaches reports whether t may use any model that p serves. Globs that could have a name in common count as having
// one.
func (s *Snapshot) Reaches(t *Tenant, p *Pool) bool {
	return slices.ContainsFunc(s.scope(t), func(grant string) bool { return s.routes.reach(t, grant, p) })
}

// PoolsOf lists the places in [Snapshot.Pools] of the pools that t reaches.
func (s *Snapshot) PoolsOf(t *Tenant) []int {
	var list []int
	for i := range s.cfg.Pools {
		if s.Reaches(t, &s.cfg.Pools[i]) {
			list = append(list, i)
		}
	}
	return list
}

// scope is what t may use, as patterns. Those of the snapshot's own tenants are known.
func (s *Snapshot) scope(t *Tenant) []string {
	if t.Index < len(s.tenants) && t == &s.tenants[t.Index] {
		return s.scopes[t.Index]
	}
	return t.scope()
}

// reach reports whether a pattern of t's scope leads to a model of p.
func (rs *routes) reach(t *Tenant, grant string, p *Pool) bool {
	if !isGlob(grant) {
		at, ok := rs.find(grant)
		return ok && at == p.Index
	}
	return slices.ContainsFunc(p.Models, func(m string) bool { return t.grants(grant, m) })
}

// grants reports whether a glob of t's scope has a name in common with a pool's entry.
func (t *Tenant) grants(grant, m string) bool {
	if len(t.Bounds) > 0 && !isGlob(m) {
		return t.MayUse(m)
	}
	return overlap(grant, m)
}

// reach lists the indices of the pools that t may use.
func (c *compiler) reach(t *Tenant) []int {
	var all []int
	for _, grant := range c.scopes[t.Index] {
		if grant != "" { // else refused already
			all = append(all, c.lead(t, grant)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// lead lists the indices of the pools that a pattern of t's scope leads to. Many tenants have the same patterns; a
// scope that is narrowed may stand for less than it says.
func (c *compiler) lead(t *Tenant, grant string) []int {
	pools, known := c.reached[grant]
	if known && len(t.Bounds) == 0 {
		return pools
	}
	pools = nil
	for i := range c.cfg.Pools {
		if c.routes.reach(t, grant, &c.cfg.Pools[i]) {
			pools = append(pools, i)
		}
	}
	if len(t.Bounds) == 0 {
		c.reached[grant] = pools
	}
	return pools
}

// grantKnown reports whether nothing was refused of what decides which pools t may use.
func (c *compiler) grantKnown(t *Tenant) bool {
	return c.complete && !slices.Contains(t.Models, "") &&
		!slices.ContainsFunc(t.Bounds, func(bound []string) bool { return slices.Contains(bound, "") })
}

// origin is the path at which a tenant's value of a tier's key is written: its own, else its tier's.
func (c *compiler) origin(t *Tenant, key string) string {
	own := strictyaml.Child(t.path(), key)
	tier := strictyaml.Child(strictyaml.Child("tiers", t.Tier), key)
	if _, written := c.r.Places[own]; written || t.Tier == "" || t.Parent >= 0 {
		return own
	}
	if _, written := c.r.Places[tier]; written {
		return tier
	}
	return own
}
