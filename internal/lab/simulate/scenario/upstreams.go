package scenario

import (
	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/placement"
	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// upstreams reads a pool's upstreams with limits of their own.
func (p *parser) upstreams(v value) {
	p.upstream = map[string]int{}
	v.Each(func(v value) {
		u := placement.Spec{Weight: 1}
		readers := map[string]func(value){
			"name":   func(v value) { v.Name(&u.Name) },
			"weight": func(v value) { v.Whole(&u.Weight, 1, 1000) },
			"order":  func(v value) { v.Whole(&u.Order, 0, 1000) },
		}
		limitReaders(readers, &u)
		there := v.Fields(readers)
		name, named := there["name"]
		_, twice := p.upstream[u.Name]
		switch {
		case v.IsMapping() && !named:
			v.Problem("has no name; write name:")
		case named && twice:
			name.Problem("there is an upstream %s already; give each its own name", strictyaml.Show(u.Name))
		}
		if u.Name != "" {
			p.upstream[u.Name] = len(p.s.Pool.Upstreams)
		}
		p.s.Pool.Upstreams = append(p.s.Pool.Upstreams, u)
	})
	if v.IsList() && (v.Empty() || len(p.s.Pool.Upstreams) > placement.Most) {
		v.Problem("names %d upstreams; write 1 to %d", len(p.s.Pool.Upstreams), placement.Most)
	}
}

// limitReaders adds the keys of limits, of each axis one.
func limitReaders(readers map[string]func(value), of terms.Limited) {
	for _, k := range terms.Axes {
		most := escrow.MaxLimit
		if k == terms.Concurrency {
			most = mostSlots
		}
		readers[k.Key()] = func(v value) { v.Whole(of.Amount(k), 0, most) }
	}
}

// sumUpstreams gives a pool that leaves a limit out the sum of its upstreams', if all have one.
func (p *parser) sumUpstreams(there map[string]value) {
	pool := &p.s.Pool
	at, ok := there["upstreams"]
	if !ok {
		for _, key := range []string{"cache", "affinity"} {
			if other, alone := there[key]; alone {
				other.Problem("is of upstreams; write upstreams beside it, or remove it")
			}
		}
		return
	}
	for _, k := range terms.Axes {
		if _, written := there[k.Key()]; written {
			continue
		}
		limit := pool.Amount(k)
		*limit = 0
		have := 0
		for i := range pool.Upstreams {
			if n := *pool.Upstreams[i].Amount(k); n > 0 {
				*limit += n
				have++
			}
		}
		if have > 0 && have < len(pool.Upstreams) {
			at.Problem("%d of %d have %s, so the pool needs it itself; write it beside them", have, len(pool.Upstreams), k.Key())
		}
	}
	for _, key := range []string{"adaptive", "knee"} {
		if other, both := there[key]; both {
			other.Problem("is not simulated with upstreams; remove one of them")
		}
	}
}

// turns reads how many calls a conversation has.
func (p *parser) turns(v value, into *int64) {
	v.Whole(into, 1, 1000)
	if p.s.Pool.CountsTokens() {
		v.Problem("is not simulated in a pool with limits on tokens; remove one of them")
	}
}

// via reads which upstreams a tenant may use.
func (p *parser) via(v value, into *escrow.Mask) {
	mask := escrow.Mask(0)
	v.Each(func(v value) {
		i := -1
		if p.upstreamOf(v, &i); i >= 0 {
			mask = mask.With(i)
		}
	})
	*into = mask
	if v.IsList() && v.Empty() {
		v.Problem("is an empty list; write at least one upstream")
	}
}

// upstreamOf reads the name of one.
func (p *parser) upstreamOf(v value, into *int) {
	if len(p.upstream) == 0 {
		v.Problem("the pool has no upstreams; write upstreams: [{name: a, tpm: 1000}] there")
		return
	}
	strictyaml.OneOf(v, into, p.upstream)
}
