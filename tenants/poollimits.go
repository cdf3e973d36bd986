package tenants

import (
	"slices"
	"strings"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// poolLimitShape has a tenant's own limits in one pool.
var poolLimitShape = shape[PoolLimits]{
	Fields: append(limitFields[PoolLimits]("Own %s in this pool."),
		windowsField("Own limits in this pool over other times and in other shapes than rolling minutes, at most 4.",
			func(l *PoolLimits) *terms.Limits { return &l.Limits })),
	Also: schema{"minProperties": 1},
}

var poolLimitsField = field[draft]{
	Name: "pools", About: "Own limits in single pools, by the pool's name, beside those over all pools. A tenant's are laid over its tier's, key by key.",
	Kind: strictyaml.MapOf(anyName, func() schema { start := PoolLimits{}; return poolLimitShape.Schema(&start) }, 1),
	Read: func(v value, t *draft) { readPoolLimits(v, t) },
}

// readPoolLimits reads limits by pool over those that t has from its tier.
func readPoolLimits(v value, t *draft) {
	list, ok := v.Pairs()
	if ok && len(list) == 0 {
		v.Problem("is empty and limits nothing; write limits by pool, such as {gpt-4o: {tpm: 60000}}, or remove the key")
	}
	t.Pools = slices.Clone(t.Pools) // the tier's own list stays as it is
	for _, p := range list {
		if known := t.given.pools; len(known) > 0 && !slices.Contains(known, p.Key) {
			p.Report.Add(p.At, "%s: there is no pool %s; %s", strictyaml.Spell(v.Path), strictyaml.Show(p.Key), strictyaml.Advise(p.Key, known))
			continue
		}
		limits, ok := p.Pairs()
		if ok && len(limits) == 0 {
			p.Problem("is empty and limits nothing; write a limit, such as tpm: 60000, or remove it")
		}
		poolLimitShape.ReadPairs(limits, t.inPool(p.Key))
	}
	sortPoolLimits(t.Pools)
}

// LimitsIn are the limits of t in p alone.
func (t *Tenant) LimitsIn(p *Pool) PoolLimits {
	for _, l := range t.Pools {
		if l.Pool == p.Name {
			return l
		}
	}
	return PoolLimits{}
}

func sortPoolLimits(list []PoolLimits) {
	slices.SortFunc(list, func(a, b PoolLimits) int { return strings.Compare(a.Pool, b.Pool) })
}

// poolLimits leaves of t's entries those that limit something: a tier's entry is for the tenants that may use the
// pool, but one that is the tenant's own says something about nothing when it may not.
func (c *compiler) poolLimits(t *Tenant) {
	if len(t.Pools) == 0 {
		return
	}
	var kept []PoolLimits
	reach := c.reach(t)
	for _, l := range t.Pools {
		at := slices.IndexFunc(c.cfg.Pools, func(p Pool) bool { return p.Name == l.Pool })
		if _, can := slices.BinarySearch(reach, at); !can {
			c.unreachedLimits(t, l.Pool, at)
			continue
		}
		if terms.Any(&l) || len(l.Windows) > 0 {
			kept = append(kept, l)
		}
	}
	t.Pools = kept
}

// unreachedLimits reports an entry that is t's own; at is the pool's index, or -1 where there is none.
func (c *compiler) unreachedLimits(t *Tenant, pool string, at int) {
	path := strictyaml.Child(strictyaml.Child(t.path(), "pools"), pool)
	own := c.written(path)
	tiers := c.written(strictyaml.Child(strictyaml.Child(strictyaml.Child("tiers", t.Tier), "pools"), pool))
	switch {
	case tiers && !own || !c.grantKnown(t):
	case at < 0:
		c.r.At(path, "there is no pool %s; %s", strictyaml.Show(pool), strictyaml.Advise(pool, poolNames(c.cfg.Pools)))
	default:
		c.r.At(path, "limits nothing: tenant %s may use no model of pool %s; remove it, or grant a model", strictyaml.Show(t.Name), strictyaml.Show(pool))
	}
}
