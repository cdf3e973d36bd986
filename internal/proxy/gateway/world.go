package gateway

import (
	"slices"
	"sync"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/proxy/gateway/upstream"
	"github.com/llmgov/llmgov/internal/proxy/gateway/usage"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/tenants"
)

// world is a policy with the upstreams of its pools. It is immutable, and each request loads it once.
type world struct {
	*admission.Policy
	pools    []*poolSide                   // the same as the policy's
	accounts map[string]*upstreams.Account // those of their upstreams
	shares   func() [][]int64              // tokens a minute under contention, by tenant and pool; computed once
}

// poolSide is a pool as the gateway sees it.
type poolSide struct {
	*admission.Pool
	upstreams []*upstream.Upstream
	set       *upstreams.Set // the same, to choose from
}

// newWorld resolves the upstreams of a policy. The gateway's beliefs about those that were there before are
// kept; before is nil for the first policy.
func newWorld(next *admission.Policy, before *world) (*world, error) {
	byName, err := upstream.New(next.Snapshot.Config().Upstreams)
	if err != nil {
		return nil, err
	}
	old := before.byIdentity()
	for _, u := range byName {
		if same := old[u.Identity()]; same != nil {
			u.Keep(same)
		}
	}
	w := &world{Policy: next, shares: sync.OnceValue(func() [][]int64 { return usage.SharesOf(next.Snapshot) })}
	for _, p := range next.Pools {
		side := &poolSide{Pool: p}
		side.upstreams, side.set = newSet(p.Pool, byName, before.setOf(p.Name))
		side.set.Shared = next.Snapshot.Config().Store != "memory"
		for k, r := range p.Ranges {
			if limit := *p.Amount(limits.Axis(k)); limit > 0 && (r.Max > 0 || p.Ramp > 0) {
				side.set.Ranges[k] = upstreams.Range{Least: limit, Most: r.Max, Throttles: r.Adaptive != "", Ramp: p.Ramp}
			}
		}
		w.pools = append(w.pools, side)
	}
	var sets []*upstreams.Set
	var configured []upstreams.Told
	for _, p := range w.pools {
		sets = append(sets, p.set)
		configured = append(configured, terms.Minute(p))
	}
	w.accounts = upstreams.NewAccounts(sets, configured)
	for key, a := range w.accounts {
		if old := before.poolsAt(key); old != nil && slices.Equal(old, w.poolsAt(key)) {
			a.Keep(before.accounts[key])
		}
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

// poolsAt are the names of the pools at an account.
func (w *world) poolsAt(account string) (names []string) {
	if w != nil && w.accounts[account] != nil {
		for _, at := range w.accounts[account].Pools {
			names = append(names, w.pools[at.Pool].Name)
		}
	}
	return names
}

// byIdentity are the upstreams of all pools, by their identities.
func (w *world) byIdentity() map[string]*upstream.Upstream {
	all := map[string]*upstream.Upstream{}
	if w != nil {
		for _, p := range w.pools {
			for _, u := range p.upstreams {
				all[u.Identity()] = u
			}
		}
	}
	return all
}

// heeds are the words of upstreams' heed.
var heeds = map[string]upstreams.Heed{tenants.HeedLower: upstreams.HeedLower, tenants.HeedOff: upstreams.HeedOff, tenants.HeedFollow: upstreams.HeedFollow}

// newSet makes a pool's set of upstreams, from which one is chosen for each try. What was believed
// about those that were there before is kept.
func newSet(p *tenants.Pool, byName map[string]*upstream.Upstream, before *upstreams.Set) ([]*upstream.Upstream, *upstreams.Set) {
	var list []*upstream.Upstream
	var specs []upstreams.Spec
	for _, m := range p.Upstreams {
		u := byName[m.Name]
		list = append(list, u)
		specs = append(specs, upstreams.Spec{
			Name: u.Name, Weight: m.Weight, Order: m.Order, Identity: u.Identity(), Account: u.Account,
			Limited: p.UpstreamsLimited(), Own: terms.Minute(&m), Heed: heeds[u.Heed],
		})
	}
	return list, upstreams.New(specs, before)
}

// serving are the upstreams of the call's pool that its tenant may reach and that have a route for its model.
func (c *call) serving() (some upstreams.Mask) {
	for i, u := range c.pool.upstreams {
		if c.Tenant.MayReach(u.Name) && u.Serves(c.route, c.pool.Upstreams[i].ModelName(c.realModel())) {
			some = some.With(i)
		}
	}
	return some
}
