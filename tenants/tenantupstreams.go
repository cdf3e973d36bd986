package tenants

import (
	"slices"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// A tenant's calls may go to some upstreams only: to what it has paid for, or to a region.

var upstreamsField = field[draft]{
	Name: "upstreams", About: "The upstreams to which its calls may go. Left out, all, or those of its parent.",
	Kind: strictyaml.ListOf(strictyaml.NameKind, 1, true), Read: func(v value, t *draft) { t.Upstreams = readUpstreamNames(v) },
}

// readUpstreamNames reads a list of upstreams. A refused list is not empty.
func readUpstreamNames(v value) []string {
	items, ok := v.Items()
	if ok && len(items) == 0 {
		v.Problem("is empty, so its calls could go nowhere; list upstreams, or remove the key to allow all")
	}
	list := []string{}
	for _, it := range items {
		name := it.Named()
		if name != strictyaml.Unreadable && slices.Contains(list, name) {
			it.Problem("%s is listed twice; remove one", it.Say(name))
		}
		list = append(list, name)
	}
	if len(list) == 0 {
		list = []string{strictyaml.Unreadable}
	}
	return list
}

// MayReach reports whether the tenant's calls may go to an upstream.
func (t *Tenant) MayReach(upstream string) bool {
	return t.Upstreams == nil || slices.Contains(t.Upstreams, upstream)
}

// Reach is the set of the pool's upstreams to which a tenant's calls may go, by their index: bit 0 is the first. 0 is all.
func (p *Pool) Reach(t *Tenant) (some uint64) {
	if t.Upstreams == nil {
		return 0
	}
	for i := range p.Upstreams {
		if t.MayReach(p.Upstreams[i].Name) {
			some |= 1 << i
		}
	}
	return some
}

// For is the pool as a tenant has it: with those of its upstreams to which the tenant's calls may go.
func (p *Pool) For(t *Tenant) *Pool {
	if t.Upstreams == nil {
		return p
	}
	own := *p
	own.Upstreams = nil
	for _, u := range p.Upstreams {
		if t.MayReach(u.Name) {
			own.Upstreams = append(own.Upstreams, u)
		}
	}
	return &own
}

// open reports whether the tenant's calls may go to any upstream of a pool.
func (t *Tenant) open(p *Pool) bool {
	return t.Upstreams == nil || slices.ContainsFunc(p.Upstreams, func(u PoolUpstream) bool { return t.MayReach(u.Name) })
}

// reachable checks that the upstreams of a tenant's list are there, and are its parent's too. own says that the list is
// its own.
func (c *compiler) reachable(t *Tenant, own bool) {
	if !own || len(c.cfg.Upstreams) == 0 {
		return
	}
	var names []string
	for _, u := range c.cfg.Upstreams {
		names = append(names, u.Name)
	}
	path := c.origin(t, "upstreams")
	for i, name := range t.Upstreams {
		at := strictyaml.Item(path, i)
		switch {
		case name == strictyaml.Unreadable || c.said[at]:
		case !slices.Contains(names, name):
			c.said[at] = true
			c.r.At(at, "there is no upstream %s; %s", c.r.Shown(at, name), strictyaml.Advise(name, names))
		case t.Parent >= 0 && !c.tenants[t.Parent].MayReach(name):
			c.r.At(at, "%s: its parent %s may not reach it; grant it there too, or remove it", c.r.Shown(at, name), strictyaml.Show(c.tenants[t.Parent].Name))
		}
	}
}
