package gateway

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/internal/policy"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/tenants"
)

// Apply puts another policy in force as a whole, or changes nothing and says why. Calls in flight
// keep the world that they began with, except those that are sent back into the queue: see follow.
// What was learned is kept, and so are all counters of tenants and pools that are still there. The
// time zone in which budgets begin stays that of the first policy.
//
// The governor comes first, so that a call that finds the new world finds its tenants and pools in
// the governor, too. A call from the old world that the governor does not know any more begins
// again: see again.
func (g *Gateway) Apply(snap *tenants.Snapshot) error {
	g.applying.Lock()
	defer g.applying.Unlock()
	return g.apply(snap)
}

// Rekey puts the present content of a key file in force, with the policy that is in force now. Both
// are read under the lock, so that neither is older than a change made by others.
func (g *Gateway) Rekey(file *tenants.KeyFile) error {
	g.applying.Lock()
	defer g.applying.Unlock()
	keys, err := file.List()
	if err != nil {
		return err
	}
	before := g.world.Load().snap
	if snap := before.WithKeys(keys); !snap.Equal(before) {
		return g.apply(snap)
	}
	return nil
}

// apply is Apply; g.applying must be held.
func (g *Gateway) apply(snap *tenants.Snapshot) error {
	before := g.world.Load()
	w, err := newWorld(snap, g.metrics, before)
	if err != nil {
		return err
	}
	rules := policy.Governor(snap)
	rules.Zone = g.zone
	if err := g.gov.Apply(rules); err != nil {
		before.retain(g.metrics)
		return err
	}
	g.intake.SetBounds(bodyBounds(snap))
	g.used.follow(snap)
	g.world.Store(w)
	for _, p := range w.pools {
		g.believe(p) // there may be other upstreams, or weights
	}
	w.retain(g.metrics)
	g.metrics.PolicyInForce(snap.Hash(), time.Now())
	return nil
}

// Snapshot is the policy in force.
func (g *Gateway) Snapshot() *tenants.Snapshot { return g.world.Load().snap }

// outdated reports whether another policy is in force than the one that the call began with. If one
// is being taken over, it waits for that.
func (c *call) outdated() bool {
	c.g.applying.Lock()
	defer c.g.applying.Unlock()
	return c.world != c.g.world.Load()
}

// again begins a call anew in the policy that is in force now: between the call's first look at its
// world and its admission the tenant lost its access to the pool, or the pool was renamed. A tenant
// that is gone is told so; all others must not notice.
func (c *call) again(steps ...func() *refusal) *refusal {
	if !c.outdated() {
		panic("llmgov: BUG: gateway and governor know different policies")
	}
	if c.account != nil {
		c.account.Release()
	}
	c.world = c.g.world.Load()
	c.tenant = nil
	c.pool = nil
	c.account = nil
	c.shown = false
	c.req = governor.Request{}
	for _, step := range slices.Concat([]func() *refusal{c.authenticate, c.granted, c.readHead}, steps) {
		if f := step(); f != nil {
			return f
		}
	}
	return nil
}
