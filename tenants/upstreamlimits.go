package tenants

import (
	"slices"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// An upstream of a pool may have limits of its own. A pool that does not have the same limit itself then has their sum.

// UpstreamsLimited reports whether any of the pool's upstreams has a limit of its own.
func (p *Pool) UpstreamsLimited() bool {
	return slices.ContainsFunc(p.Upstreams, func(u PoolUpstream) bool {
		return slices.ContainsFunc(capacities, func(c capacity) bool { return *c.of(&u) > 0 })
	})
}

// Limited reports whether the pool has any limit.
func (p *Pool) Limited() bool {
	return slices.ContainsFunc(capacities, func(c capacity) bool { return *c.pool(p) > 0 })
}

// capacity is a limit that both a pool and its upstreams may have.
type capacity struct {
	key  string
	pool func(*Pool) *int64
	of   func(*PoolUpstream) *int64
}

var capacities = []capacity{
	{"tpm", func(p *Pool) *int64 { return &p.TPM }, func(u *PoolUpstream) *int64 { return &u.TPM }},
	{"rpm", func(p *Pool) *int64 { return &p.RPM }, func(u *PoolUpstream) *int64 { return &u.RPM }},
	{"itpm", func(p *Pool) *int64 { return &p.ITPM }, func(u *PoolUpstream) *int64 { return &u.ITPM }},
	{"otpm", func(p *Pool) *int64 { return &p.OTPM }, func(u *PoolUpstream) *int64 { return &u.OTPM }},
	{"concurrency", func(p *Pool) *int64 { return &p.Concurrency }, func(u *PoolUpstream) *int64 { return &u.Concurrency }},
}

// upstreamLimits gives a pool the limits that follow from its upstreams', and checks that they go together with the rest.
func (c *compiler) upstreamLimits(p *Pool, path string) {
	if !p.UpstreamsLimited() {
		return
	}
	for _, axis := range capacities {
		sum := int64(0)
		without := -1
		for i := range p.Upstreams {
			limit := *axis.of(&p.Upstreams[i])
			sum += limit
			if limit == 0 {
				without = i
			}
		}
		limit := axis.pool(p)
		switch {
		case *limit > 0 || sum == 0 || c.r.Refused[strictyaml.Child(path, axis.key)]:
		case without >= 0:
			c.r.At(path, "has no %s, and neither has its upstream %s, while others have one, so nothing says how much there is to share; write %s in either",
				axis.key, strictyaml.Show(p.Upstreams[without].Name), axis.key)
		default:
			*limit = min(sum, maxAmount)
		}
	}
	if at := strictyaml.Child(path, "on_store_loss"); p.StoreLoss.Rule != "" && p.StoreLoss.Rule != StoreLossClosed && c.cfg.Store != "memory" {
		c.r.At(at, "is %s, which does not go together with limits of upstreams yet: a gateway that is cut off would not know how much of each is left; write closed, or remove the limits",
			string(p.StoreLoss.Rule))
	}
}
