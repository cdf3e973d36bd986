package tenants

import "slices"

// Reaches reports whether t may use any model that p serves. Two globs that
// could have a name in common count as having one.
func (s *Snapshot) Reaches(t *Tenant, p *Pool) bool {
	return slices.ContainsFunc(t.Models, func(grant string) bool { return s.routes.reach(grant, p) })
}

// reach reports whether a granted pattern leads to a model of p.
func (rs *routes) reach(grant string, p *Pool) bool {
	if !isGlob(grant) {
		at, ok := rs.find(grant)
		return ok && at == p.Index
	}
	return slices.ContainsFunc(p.Models, func(m string) bool { return overlap(grant, m) })
}

// reach lists the indices of the pools that t may use.
func (c *compiler) reach(t *Tenant) []int {
	var all []int
	for _, grant := range t.Models {
		if grant == "" {
			continue // refused already
		}
		pools, known := c.reached[grant]
		if !known {
			for i := range c.cfg.Pools {
				if c.routes.reach(grant, &c.cfg.Pools[i]) {
					pools = append(pools, i)
				}
			}
			c.reached[grant] = pools
		}
		all = append(all, pools...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// grantKnown reports whether nothing was refused of what decides which pools t may use.
func (c *compiler) grantKnown(t *Tenant) bool {
	return c.complete && !slices.Contains(t.Models, "")
}

// origin is the path at which a tenant's value of a tier's key is written: its own, else its tier's.
func (c *compiler) origin(t *Tenant, key string) string {
	own := child(t.path(), key)
	tier := child(child("tiers", t.Tier), key)
	if _, written := c.r.places[own]; written {
		return own
	}
	if _, written := c.r.places[tier]; written && t.Tier != "" {
		return tier
	}
	return own
}
