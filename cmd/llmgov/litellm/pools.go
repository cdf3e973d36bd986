package litellm

import "slices"

// pool is a model, or several without limits of their own, of one upstream. Its models are the names that callers ask
// for.
type pool struct {
	name, upstream        string
	models                []string
	tpm, rpm, concurrency int64
	unlimited             bool
}

// unlimitedConcurrency is what a pool gets that had no limit: llmgov shares something, so there must be some.
const unlimitedConcurrency = 256

// limits puts a name for a model into a pool, unless it leads elsewhere already: who was granted this one is not
// granted that one.
func (c *converter) limits(model node, up, name, real string, params node) (put bool) {
	own := pool{tpm: params.get("tpm").amount(), rpm: params.get("rpm").amount(), concurrency: params.get("max_parallel_requests").amount()}
	if own.concurrency == 0 {
		own.concurrency = c.slots
	}
	if p := c.poolOf(name); p != nil && (p.upstream != up || c.reals[name] != real) {
		model.note("%q leads to %q of upstream %s already, and a name leads to one model of one upstream yet: this deployment and its limits are left out",
			name, c.reals[name], p.upstream)
		return false
	}
	if p := c.sharing(up, real); p != nil {
		c.serve(p, name, real)
		p.add(model, real, own)
		return true
	}
	if own.tpm > 0 || own.rpm > 0 || own.concurrency > 0 {
		own.name, own.upstream = c.uniquePool(name), up
		c.pools = append(c.pools, own)
		c.serve(&c.pools[len(c.pools)-1], name, real)
		return true
	}
	i := slices.IndexFunc(c.pools, func(p pool) bool { return p.unlimited && p.upstream == up })
	if i < 0 {
		i = len(c.pools)
		c.pools = append(c.pools, pool{name: c.uniquePool(up), upstream: up, concurrency: unlimitedConcurrency, unlimited: true})
		model.note("has no rpm or tpm, and a pool needs a limit: pool %s has concurrency %d; write what your contract says",
			c.pools[i].name, unlimitedConcurrency)
	}
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

// sharing is the pool that has a model of an upstream already, by whatever name, or nil: it is one capacity.
func (c *converter) sharing(up, real string) *pool {
	i := slices.IndexFunc(c.pools, func(p pool) bool {
		return p.upstream == up && slices.ContainsFunc(p.models, func(name string) bool { return c.reals[name] == real })
	})
	if i < 0 {
		return nil
	}
	return &c.pools[i]
}

// add takes in the limits of another deployment of a model that the pool has.
func (p *pool) add(model node, real string, more pool) {
	if p.unlimited {
		model.note("%q is there twice with the same upstream, once without limits: it has none", real)
		return
	}
	if sum := [3]int64{both(p.tpm, more.tpm), both(p.rpm, more.rpm), both(p.concurrency, more.concurrency)}; sum != [3]int64{} {
		p.tpm, p.rpm, p.concurrency = sum[0], sum[1], sum[2]
	}
	model.note("%q is there twice with the same upstream: limits that both have are added up", real)
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
