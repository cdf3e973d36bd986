package tenants

import (
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/strictyaml"
)

// maxUpstreams is how many upstreams a pool may have.
const maxUpstreams = 64

// maxUpstreamWeight is the largest weight of an upstream in a pool.
const maxUpstreamWeight = 1000

var poolUpstreamShape = shape[PoolUpstream]{
	Fields: []field[PoolUpstream]{
		{
			Name: "name", About: "One of upstreams.", Kind: strictyaml.NameKind,
			Read: func(v value, u *PoolUpstream) { u.Name = v.Named() },
		},
		strictyaml.AmountField("weight", "Its part of the calls, beside the weights of the others.", 1, maxUpstreamWeight,
			func(u *PoolUpstream) *int64 { return &u.Weight }),
	},
	Also: schema{"required": []any{"name"}},
}

func poolUpstreamList() schema {
	s := strictyaml.ListOf(func() schema { return poolUpstreamShape.Schema(&PoolUpstream{Weight: 1}) }, 1, true)()
	s["maxItems"] = maxUpstreams
	return s
}

// poolUpstream reads the one upstream of a pool.
func readPoolUpstream(v value, p *Pool) {
	if len(p.Upstreams) > 0 {
		v.Problem("is there beside upstreams; write one of them")
		return
	}
	p.Upstreams = []PoolUpstream{{Name: v.Named(), Weight: 1}}
}

// poolUpstreams reads a pool's list of upstreams.
func readPoolUpstreams(v value, p *Pool) {
	if len(p.Upstreams) > 0 {
		v.Problem("is there beside upstream; write one of them")
		return
	}
	items, ok := v.Items()
	if ok && len(items) == 0 {
		v.Problem("is empty; write at least one, such as {name: openai, weight: 3}, or remove the key")
	}
	for _, it := range items {
		u := PoolUpstream{Name: strictyaml.Unreadable, Weight: 1}
		list, ok := it.Pairs()
		if known := poolUpstreamShape.ReadPairs(list, &u); ok && known && !strictyaml.Has(list, "name") {
			it.Problem("names no upstream; write one, such as {name: openai, weight: 3}")
		}
		p.Upstreams = append(p.Upstreams, u)
	}
	if len(items) == 0 { // it has been said
		p.Upstreams = []PoolUpstream{{Name: strictyaml.Unreadable, Weight: 1}}
	}
	checkUpstreams(v.Report, v.Path, p.Upstreams)
}

// checkUpstreams complains about a list that is too long, and names that it has twice.
func checkUpstreams(r *report, path string, list []PoolUpstream) {
	if len(list) > maxUpstreams {
		r.At(path, "has %d upstreams; write at most %d", len(list), maxUpstreams)
	}
	for i, u := range list {
		if u.Name != strictyaml.Unreadable && slices.ContainsFunc(list[:i], func(o PoolUpstream) bool { return o.Name == u.Name }) {
			r.At(strictyaml.Item(path, i), "%s is there twice; remove one, and add up the weights", r.ShownIn(strictyaml.Item(path, i), "name", u.Name))
		}
	}
}

// poolUpstreams checks that a pool's upstreams are there, and fills in the only one that it can be.
func (c *compiler) poolUpstreams(p *Pool, path string) {
	names := make([]string, len(c.cfg.Upstreams))
	for i, u := range c.cfg.Upstreams {
		names[i] = u.Name
	}
	switch {
	case len(names) == 0: // that is the problem
	case len(p.Upstreams) == 0 && len(names) == 1:
		p.Upstreams = []PoolUpstream{{Name: names[0], Weight: 1}}
	case len(p.Upstreams) == 0:
		c.r.At(path, "has no upstream and there are %d to choose from; write upstream", len(names))
	}
	for i := range p.Upstreams {
		u := &p.Upstreams[i]
		u.Weight = max(u.Weight, 1)
		if len(names) == 0 || u.Name == strictyaml.Unreadable || slices.Contains(names, u.Name) {
			continue
		}
		at := strictyaml.Child(path, "upstream")
		if _, single := c.r.Places[at]; !single {
			at = strictyaml.Item(strictyaml.Child(path, "upstreams"), i)
		}
		c.r.At(at, "there is no upstream %s; %s", c.r.ShownIn(at, "name", u.Name), strictyaml.Advise(u.Name, names))
	}
}

// UpstreamNames lists the names of a pool's upstreams with the weights of several, as "openai (3), azure-eu (1)".
func (p *Pool) UpstreamNames() string {
	if len(p.Upstreams) == 1 {
		return p.Upstreams[0].Name
	}
	var parts []string
	for _, u := range p.Upstreams {
		parts = append(parts, u.Name+" ("+strictyaml.SpellDecimal(u.Weight, 0)+")")
	}
	return strings.Join(parts, ", ")
}
