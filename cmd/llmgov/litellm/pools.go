package litellm

import (
	"cmp"
	"slices"
	"strings"
)

// amounts are limits, of which 0 is none.
type amounts struct{ tpm, rpm, concurrency int64 }

// member is an upstream of a pool.
type member struct {
	name   string
	weight int64
	order  int64
	models map[string]string // its own names of models
}

// pool is a model, or several without limits of their own, of the same upstreams. Its models are the names that callers
// ask for.
type pool struct {
	name      string
	upstreams []member
	models    []string
	amounts
	unlimited  bool
	ownServers bool // that count tokens as they are produced, or Anthropic, which does too
}

// unlimitedConcurrency is the limit of a pool that had none, because llmgov needs one to share.
const unlimitedConcurrency = 256

// amountsOf reads the limits of a deployment.
func (c *converter) amountsOf(params node) amounts {
	own := amounts{params.get("tpm").amount(), params.get("rpm").amount(), params.get("max_parallel_requests").amount()}
	if own.concurrency == 0 {
		own.concurrency = c.slots
	}
	if rate := params.get("rpm"); !c.weighs && own.rpm+own.tpm > 0 {
		if own.rpm == 0 {
			rate = params.get("tpm")
		}
		c.weighs = true
		rate.differs("LiteLLM chooses between deployments by rpm or tpm, and keeps to them with some settings only; here they are limits, of all deployments of a model together")
	}
	return own
}

// place puts a name for a model into a pool, unless it leads elsewhere already: who was granted this one is not
// granted that one.
func (c *converter) place(model node, own pool, name, real string) (put bool) {
	if p := c.poolOf(name); p != nil && (p.key() != own.key() || c.reals[name] != real) {
		model.lost("%q leads to %q of upstream %s already, and a name leads to one model of one pool: this deployment and its limits are left out",
			name, c.reals[name], p.key())
		return false
	}
	if p, same := c.sharing(&own, real); p != nil {
		c.serve(p, name, same)
		p.add(model, real, own)
		return true
	}
	if p := c.besides(&own, name, real); p != nil {
		model.lost("%q is left out: it is a deployment of pool %s already, and each of two pools would let calls past the limits of the other", name, p.name)
		return false
	}
	c.overlapping(model, &own, real)
	if own.amounts != (amounts{}) {
		own.name = c.uniquePool(name)
		c.pools = append(c.pools, own)
		c.serve(&c.pools[len(c.pools)-1], name, real)
		return true
	}
	i := slices.IndexFunc(c.pools, func(p pool) bool { return p.unlimited && slices.EqualFunc(p.upstreams, own.upstreams, member.alike) })
	if i < 0 {
		i = len(c.pools)
		own.concurrency = unlimitedConcurrency
		own.unlimited = true
		own.name = c.uniquePool(name)
		if len(own.upstreams) == 1 {
			own.name = c.uniquePool(own.upstreams[0].name)
		}
		c.pools = append(c.pools, own)
		model.differs("has no rpm or tpm, and a pool needs a limit: pool %s has concurrency %d; write what your contract says",
			own.name, unlimitedConcurrency)
	}
	c.pools[i].rename(real, &own)
	c.serve(&c.pools[i], name, real)
	return true
}

// serve lets callers ask a pool for a model by that name.
func (c *converter) serve(p *pool, name, real string) {
	if _, known := c.reals[name]; !known {
		p.models = append(p.models, name)
		c.reals[name] = real
	}
}

// poolOf is the pool that serves a name, or nil.
func (c *converter) poolOf(name string) *pool {
	i := slices.IndexFunc(c.pools, func(p pool) bool { return slices.Contains(p.models, name) })
	if i < 0 {
		return nil
	}
	return &c.pools[i]
}

// sharing is the pool that has the same deployments already, and its name of the model; nil if there is none. It is one capacity.
func (c *converter) sharing(own *pool, real string) (p *pool, same string) {
	for i := range c.pools {
		p := &c.pools[i]
		for _, name := range p.models {
			if p.deployments(c.reals[name]) == own.deployments(real) {
				return p, c.reals[name]
			}
		}
	}
	return nil, ""
}

// besides is a pool of which a model, by the name that callers ask for, is a deployment that own renames, or the other way round.
func (c *converter) besides(own *pool, name, real string) *pool {
	for i := range c.pools {
		p := &c.pools[i]
		for _, m := range p.upstreams {
			at := own.at(m.name)
			if at == nil {
				continue
			}
			theirs := slices.Contains(p.models, at.models[real]) && m.asks(at.models[real]) == at.models[real]
			ours := slices.ContainsFunc(p.models, func(other string) bool { return m.models[c.reals[other]] == name }) && at.asks(name) == name
			if theirs || ours {
				return p
			}
		}
	}
	return nil
}

// overlapping says which upstreams serve a deployment in another pool too.
func (c *converter) overlapping(model node, own *pool, real string) {
	for i := range c.pools {
		p := &c.pools[i]
		var both []string
		for _, m := range own.upstreams {
			at := p.at(m.name)
			if at != nil && slices.ContainsFunc(p.models, func(name string) bool { return at.asks(c.reals[name]) == m.asks(real) }) {
				both = append(both, m.name)
			}
		}
		if len(both) > 0 {
			model.differs("%q of upstream %s is in pool %s too, and each pool keeps to its own limits", real, strings.Join(both, ", "), p.name)
		}
	}
}

// add takes in the limits of another deployment of a model that the pool has.
func (p *pool) add(model node, real string, more pool) {
	switch {
	case p.unlimited && more.amounts == (amounts{}): // nor has it any
		return
	case p.unlimited:
		model.lost("%q is there twice with the same upstream, once without limits: it has none", real)
		return
	}
	if sum := (amounts{both(p.tpm, more.tpm), both(p.rpm, more.rpm), both(p.concurrency, more.concurrency)}); sum != (amounts{}) {
		p.amounts = sum
	}
	model.differs("%q is there twice with the same upstream: limits that both have are added up", real)
}

// alike reports whether two members are the same upstream with the same weight and order.
func (m member) alike(o member) bool {
	return m.name == o.name && m.weight == o.weight && m.order == o.order
}

// rename takes in the names that the same upstreams have for a model.
func (p *pool) rename(model string, more *pool) {
	for i, m := range more.upstreams {
		name, differs := m.models[model]
		if !differs {
			continue
		}
		own := &p.upstreams[i]
		if own.models == nil {
			own.models = map[string]string{}
		}
		own.models[model] = name
	}
}

// at is the pool's member of that name, or nil.
func (p *pool) at(upstream string) *member {
	i := slices.IndexFunc(p.upstreams, func(m member) bool { return m.name == upstream })
	if i < 0 {
		return nil
	}
	return &p.upstreams[i]
}

// asks is the name by which the upstream is asked for a model.
func (m *member) asks(model string) string { return cmp.Or(m.models[model], model) }

// deployments lists the upstreams of a pool, each with its name for a model.
func (p *pool) deployments(model string) string {
	var names []string
	for _, m := range p.upstreams {
		names = append(names, m.name+" "+m.asks(model))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// uniquePool is name, or name-2 and so on, as a pool.
func (c *converter) uniquePool(name string) string {
	return unique(name, func(n string) bool { return slices.ContainsFunc(c.pools, func(p pool) bool { return p.name == n }) })
}

// both adds two limits up, of which 0 is none.
func both(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	return a + b
}
