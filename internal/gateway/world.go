package gateway

import (
	"slices"
	"sync"

	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/upstreams"
)

// world is a policy with the upstreams of its pools. It is immutable, and each request loads it once.
type world struct {
	*admission.Policy
	pools  []*poolSide      // the same as the policy's
	shares func() [][]int64 // tokens a minute under contention, by tenant and pool; computed once
}

// poolSide is a pool as the gateway sees it.
type poolSide struct {
	*admission.Pool
	upstreams []*upstream
	set       *upstreams.Set // the same, to choose from
}

// newWorld resolves the upstreams of a policy. The gateway's beliefs about those that were there before are
// kept; before is nil for the first policy.
func newWorld(next *admission.Policy, before *world) (*world, error) {
	byName, err := newUpstreams(next.Snapshot.Config().Upstreams)
	if err != nil {
		return nil, err
	}
	shelves := before.shelves()
	for _, u := range byName {
		u.shelf = shelves[u.identity()]
		if u.shelf == nil {
			u.shelf = &shelf{}
		}
	}
	w := &world{Policy: next, shares: sync.OnceValue(func() [][]int64 { return sharesOf(next.Snapshot) })}
	for _, p := range next.Pools {
		side := &poolSide{Pool: p}
		side.upstreams, side.set = newSet(p.Pool, byName, before.setOf(p.Name))
		w.pools = append(w.pools, side)
	}
	return w, nil
}

// setOf is the set of a pool's upstreams, with the beliefs about them; or nil.
func (w *world) setOf(pool string) *upstreams.Set {
	if w != nil {
		if p, ok := w.poolNamed(pool); ok {
			return p.set
		}
	}
	return nil
}

func (w *world) poolNamed(name string) (*poolSide, bool) {
	i := slices.IndexFunc(w.pools, func(p *poolSide) bool { return p.Name == name })
	if i < 0 {
		return nil, false
	}
	return w.pools[i], true
}
