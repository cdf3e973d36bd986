package gateway

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/tenants"
)

// Apply puts another policy in force, whole, or changes nothing and says why. Calls
// in flight keep the world that they began with, but for who is sent back into the queue:
// see follow. What was learned lives on, and so
// does every counter of who is still there. The zone in which budgets begin stays
// that of the first policy.
//
// The governor comes first: so whoever finds the new world finds its tenants and
// pools there too. Who comes from the old one and is not known any more begins
// again, see again.
func (g *Gateway) Apply(snap *tenants.Snapshot) error {
	g.applying.Lock()
	defer g.applying.Unlock()
	return g.apply(snap)
}

// rekey puts in force what a key file holds now, with the policy that is in force now:
// neither may be one that was looked at before somebody else changed it.
func (g *Gateway) rekey(file *tenants.KeyFile) error {
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

// apply is Apply, for who holds the lock.
func (g *Gateway) apply(snap *tenants.Snapshot) error {
	before := g.world.Load()
	w, err := newWorld(snap, g.metrics, before)
	if err != nil {
		return err
	}
	rules := GovernorConfig(snap)
	rules.Zone = g.zone
	if err := g.gov.Apply(rules); err != nil {
		before.retain(g.metrics)
		return err
	}
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

// outdated reports whether another policy is in force than the one that the call
// began with. It waits for one that is being taken over.
func (c *call) outdated() bool {
	c.g.applying.Lock()
	defer c.g.applying.Unlock()
	return c.world != c.g.world.Load()
}

// again begins a call anew, in the policy that is in force now: between the call's
// first look at its world and its admission the tenant's access to the pool has
// gone, or the pool has another name. Who is not known any more is told so; all
// others must not notice.
func (c *call) again(steps ...func() *refusal) *refusal {
	if !c.outdated() {
		panic("llmgov: BUG: gateway and governor know different policies")
	}
	if c.account != nil {
		c.account.Release()
	}
	c.world = c.g.world.Load()
	c.tenant, c.pool, c.account, c.shown = nil, nil, nil, false
	c.req = governor.Request{}
	for _, step := range slices.Concat([]func() *refusal{c.authenticate, c.granted, c.readHead}, steps) {
		if f := step(); f != nil {
			return f
		}
	}
	return nil
}
