package gateway

import (
	"slices"

	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/tenants"
)

// Apply puts another policy in force as a whole, or changes nothing and says why. Calls in flight
// keep the world that they began with, except those that are sent back into the queue: see follow.
func (g *Gateway) Apply(snap *tenants.Snapshot) error { return g.admission.Apply(snap) }

// prepare resolves the upstreams of the next policy.
func (g *Gateway) prepare(next *admission.Policy) (install func(), err error) {
	before := g.world.Load()
	w, err := newWorld(next, before)
	if err != nil {
		return nil, err
	}
	return func() {
		g.intake.SetBounds(bodyBounds(next.Snapshot))
		g.telling.Lock()
		defer g.telling.Unlock()
		g.world.Store(w)
		g.shareAccounts(w)
		for _, p := range w.pools {
			g.tellHealthLocked(p) // there may be other limits, upstreams or weights
		}
	}, nil
}

// restart begins a call anew in the policy that is in force now: between the call's first look at its
// world and its admission the tenant lost its access to the pool, or the pool was renamed. A tenant
// that is gone is told so; all others must not notice.
func (c *call) restart(steps ...func() *refusal) *refusal {
	c.world = c.g.world.Load()
	c.Renew(c.world.Policy)
	c.pool = nil
	c.shown = false
	for _, step := range slices.Concat([]func() *refusal{c.authenticate, c.granted, c.readHead}, steps) {
		if f := step(); f != nil {
			return f
		}
	}
	return nil
}
