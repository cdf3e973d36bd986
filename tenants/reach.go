package tenants

import (
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/tenants/internal/glob"
)

// Reaches reports whether t may use any model that p serves, at any of its upstreams. Globs that could have a name in
// common count as having one.
func (s *Snapshot) Reaches(t *Tenant, p *Pool) bool {
	return t.open(p) && slices.ContainsFunc(s.scope(t), func(grant string) bool { return s.routes.reach(t, grant, p) })
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

// scope lists the models that t may use, as patterns. Those of the snapshot's own tenants are known.
func (s *Snapshot) scope(t *Tenant) []string {
	if t.Index < len(s.tenants) && t == &s.tenants[t.Index] {
		return s.scopes[t.Index]
	}
	return t.scope()
}

// reach reports whether a pattern of t's scope leads to a model of p.
func (rs *routes) reach(t *Tenant, grant string, p *Pool) bool {
	if !glob.Is(grant) {
		at, ok := rs.find(grant)
		return ok && at == p.Index
	}
	return slices.ContainsFunc(p.Models, func(m string) bool { return t.grants(grant, m) })
}

// grants reports whether a glob of t's scope has a name in common with a pool's entry.
func (t *Tenant) grants(grant, m string) bool {
	if len(t.Bounds) > 0 && !glob.Is(m) {
		return t.MayUse(m)
	}
	return glob.Overlap(grant, m)
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
	return slices.DeleteFunc(slices.Compact(all), func(at int) bool { return !t.open(&c.cfg.Pools[at]) })
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

// grantKnown reports whether no value was refused that decides which pools t may use.
func (c *compiler) grantKnown(t *Tenant) bool {
	return c.complete && !slices.Contains(t.Models, "") &&
		!slices.ContainsFunc(t.Bounds, func(bound []string) bool { return slices.Contains(bound, "") })
}

// origin is the path at which a tenant's value of a tier's key is written: its own, else its tier's.
func (c *compiler) origin(t *Tenant, key string) string {
	own := strictyaml.Child(t.path(), key)
	tier := strictyaml.Child(strictyaml.Child("tiers", t.Tier), key)
	if c.written(own) || t.Tier == "" || t.Parent >= 0 && !t.OwnTier {
		return own
	}
	if c.written(tier) {
		return tier
	}
	return own
}

// ModelInfo is a model that can be listed, and the pool that serves it.
type ModelInfo struct{ Name, Pool string }

// ModelsFor lists, sorted by name, the models that t may use and that somebody wrote down by name, in a pool or in
// the tenant's own grant. A glob stands for names that only the upstream knows, so it is not listed.
func (s *Snapshot) ModelsFor(t *Tenant) []ModelInfo {
	var list []ModelInfo
	for name, i := range s.routes.exact {
		if t.MayUse(name) && t.open(&s.cfg.Pools[i]) {
			list = append(list, ModelInfo{name, s.cfg.Pools[i].Name})
		}
	}
	for _, name := range s.scope(t) {
		if glob.Is(name) {
			continue
		}
		if p, ok := s.PoolOf(name); ok && t.open(p) {
			list = append(list, ModelInfo{name, p.Name})
		}
	}
	slices.SortFunc(list, func(a, b ModelInfo) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(list)
}

// MayUse reports whether the tenant's grant, and those of all its parents, cover a model. Whether any pool serves the
// model is not asked. It allocates nothing.
func (t *Tenant) MayUse(model string) bool {
	if !granted(t.Models, model) {
		return false
	}
	for _, bound := range t.Bounds {
		if !granted(bound, model) {
			return false
		}
	}
	return true
}

func granted(patterns []string, model string) bool {
	for _, p := range patterns {
		if p == model || glob.Match(p, model) {
			return true
		}
	}
	return false
}

// scope lists the models that t may use, as patterns: its own if no parent narrows them. If one does, two patterns with a name
// in common become one that begins and ends as such names do, since [overlap] asks no more of a glob. What stands
// between their stars is lost, so whether t may use a single name is for MayUse.
func (t *Tenant) scope() []string {
	list := t.Models
	if len(t.Bounds) == 0 {
		return list
	}
	for _, bound := range t.Bounds {
		list = glob.Narrow(list, bound, maxCommon)
	}
	return t.usable(list)
}

// usable is list without names that t may not use.
func (t *Tenant) usable(list []string) []string {
	return slices.DeleteFunc(list, func(m string) bool { return !glob.Is(m) && !t.MayUse(m) })
}
