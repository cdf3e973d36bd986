package tenants

import (
	"cmp"
	"slices"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/tenants/internal/glob"
)

// listing is one entry of one pool's models.
type listing struct {
	pattern string
	pool    *Pool
	path    string
	written int // literal characters
}

// models checks that each model leads to one pool.
func (c *compiler) models() {
	c.routes = newRoutes(c.cfg.Pools)
	c.complete = len(c.cfg.Pools) > 0 &&
		!slices.ContainsFunc(c.cfg.Pools, func(p Pool) bool { return len(p.Models) == 0 || slices.Contains(p.Models, "") })
	var all []listing
	for i := range c.cfg.Pools {
		p := &c.cfg.Pools[i]
		path := strictyaml.Child(strictyaml.Child("pools", p.Name), "models")
		for j, m := range p.Models {
			if m != "" { // "" was refused already
				all = append(all, listing{m, p, strictyaml.Item(path, j), glob.Literals(m)})
			}
		}
	}
	if len(all) > maxPatterns {
		c.r.At("pools", "list %d models, more than the %d that are supported; use patterns", len(all), maxPatterns)
		return
	}
	c.repeated(all)
	c.ambiguous(all)
	c.aliases()
	c.modelNames()
}

// repeated reports entries that occur twice, in one pool or in two.
func (c *compiler) repeated(all []listing) {
	first := make(map[string]listing, len(all))
	for _, l := range all {
		f, dup := first[l.pattern]
		if !dup {
			first[l.pattern] = l
			continue
		}
		at := c.r.Place(f.path).Or("its list")
		if f.pool == l.pool {
			c.r.At(l.path, "%s is listed twice; the other is at %s, remove one", c.r.Shown(l.path, l.pattern), at)
			continue
		}
		c.r.At(l.path, "%s is also a model of pool %s at %s; leave it in one", c.r.Shown(l.path, l.pattern), strictyaml.Show(f.pool.Name), at)
	}
}

// ambiguous reports globs of different pools that match a common name and of which neither is more specific.
func (c *compiler) ambiguous(all []listing) {
	globs := slices.DeleteFunc(slices.Clone(all), func(l listing) bool { return !glob.Is(l.pattern) })
	slices.SortStableFunc(globs, func(a, b listing) int { return cmp.Compare(a.written, b.written) })
	for i, b := range globs {
		for j := i - 1; j >= 0 && globs[j].written == b.written; j-- {
			a := globs[j]
			if a.pool == b.pool || a.pattern == b.pattern || !glob.Overlap(a.pattern, b.pattern) {
				continue
			}
			c.r.At(b.path, "%s overlaps %s of pool %s at %s and neither has more literal characters; make one longer",
				c.r.Shown(b.path, b.pattern), c.r.Shown(a.path, a.pattern), strictyaml.Show(a.pool.Name), c.r.Place(a.path).Or("its list"))
			break // one is enough to act on; a hundred globs make five thousand pairs
		}
	}
}

// tenantList checks the tenants against the pools and against each other.
func (c *compiler) tenantList() {
	if len(c.tenants) == 0 && len(c.r.Problems) == 0 {
		c.r.At("policies", "there is no tenant, so nobody could make a call; define one")
	}
	keys := 0
	for i := range c.tenants {
		keys += len(c.tenants[i].Keys)
	}
	c.byKey = newKeyTable(keys)
	served := c.served()
	c.scopes = make([][]string, len(c.tenants))
	for i := range c.tenants {
		t := &c.tenants[i]
		path := t.path()
		t.DefaultPool = c.defaultPool(strictyaml.Child(path, "default_pool"), t.DefaultPool)
		own := t.Models != nil
		c.reachable(t, t.Upstreams != nil)
		if t.Parent >= 0 {
			c.inherit(t, &c.tenants[t.Parent])
		}
		if t.Models == nil {
			t.Models = []string{"*"}
		}
		c.scopes[i] = c.scope(t, own)
		t.Routes = cmp.Or(t.Routes, DefaultRoutes)
		t.DefaultPool = cmp.Or(t.DefaultPool, c.cfg.DefaultPool)
		c.keys(t, path)
		if own {
			c.grant(t, strictyaml.Child(path, "models"), served)
		}
		c.poolLimits(t)
	}
}

// served answers whether any pool has a model that a pattern matches; nil when the pools' models are not all known.
func (c *compiler) served() func(pattern string) bool {
	var all []string
	for _, p := range c.cfg.Pools {
		all = append(all, p.Models...)
	}
	if len(all) == 0 || slices.Contains(all, "") {
		return nil
	}
	known := map[string]bool{}
	return func(pattern string) bool {
		yes, asked := known[pattern]
		if !asked {
			yes = slices.ContainsFunc(all, func(m string) bool { return glob.Overlap(m, pattern) })
			known[pattern] = yes
		}
		return yes
	}
}

// grant checks that each of the tenant's patterns gives it something.
func (c *compiler) grant(t *Tenant, path string, served func(string) bool) {
	if len(t.Models) == 0 {
		c.r.At(path, "is empty and grants nothing; list models, or remove the key to grant all")
	}
	for i, m := range t.Models {
		switch {
		case m == "" || served == nil: // refused already, or not known
		case !served(m):
			c.r.At(strictyaml.Item(path, i), "%s grants nothing: no pool has such a model; fix or remove it", strictyaml.Show(m))
		case !c.within(t, m):
			c.r.At(strictyaml.Item(path, i), "%s grants nothing: its parent %s may not use such a model; fix or remove it, or grant it there too",
				strictyaml.Show(m), strictyaml.Show(c.tenants[t.Parent].Name))
		}
	}
}

// scope lists the models that t may use, as patterns, from its parent's scope. own says that t has models of its own.
func (c *compiler) scope(t *Tenant, own bool) []string {
	if len(t.Bounds) == 0 {
		return t.Models
	}
	above := c.scopes[t.Parent]
	if !own {
		return above
	}
	c.pairs += len(t.Models) * len(above)
	if c.pairs > maxPairs {
		if !c.said["pairs"] {
			c.r.At(strictyaml.Child(t.path(), "models"), "the models of teams, this one's the last, make more than %d pairs with those of their parents; write fewer", maxPairs)
		}
		c.said["pairs"] = true
		return above
	}
	list := glob.Narrow(t.Models, above, maxCommon)
	if len(list) > maxCommon {
		c.r.At(strictyaml.Child(t.path(), "models"),
			"these patterns have more than %d in common with those of the parents; write fewer, or names", maxCommon)
		return above
	}
	return t.usable(list)
}

// within reports whether a pattern of t leads to a model that its parents may use too.
func (c *compiler) within(t *Tenant, pattern string) bool {
	if len(t.Bounds) == 0 || !c.grantKnown(t) || c.pairs > maxPairs {
		return true
	}
	common := t.usable(glob.Narrow([]string{pattern}, c.scopes[t.Parent], maxCommon))
	return slices.ContainsFunc(common, func(m string) bool { return len(c.lead(t, m)) > 0 })
}
