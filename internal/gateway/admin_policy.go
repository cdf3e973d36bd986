package gateway

import (
	"github.com/llmgov/llmgov/tenants"
)

// policyView is the policy in force, and where each limit is written.
type policyView struct {
	Hash  string       `json:"hash"`
	Pools []policyPool `json:"pools"`
}

// policyPool is a pool, with those who may use it.
type policyPool struct {
	Name    string          `json:"name"`
	Models  []string        `json:"models"`
	Limits  []tenants.Limit `json:"limits"`
	Tenants []policyTenant  `json:"tenants"`
}

// policyTenant is a tenant or team in one pool.
type policyTenant struct {
	Name  string `json:"name"`
	Tier  string `json:"tier"`
	Group string `json:"group"`
	// Share is the part of the pool that its own keys get while everybody asks for more than they
	// get.
	Share  float64         `json:"share_ratio"`
	Limits []tenants.Limit `json:"limits"`
}

func (g *Gateway) policyView() policyView {
	snap := g.world.Load().snap
	v := policyView{Hash: snap.Hash(), Pools: []policyPool{}}
	pools := snap.Pools()
	for i := range pools {
		p := &pools[i]
		pv := policyPool{Name: p.Name, Models: p.Models, Limits: limitList(snap.PoolLimits(p)), Tenants: []policyTenant{}}
		for _, s := range snap.Shares(p) {
			t := s.Tenant
			pv.Tenants = append(pv.Tenants, policyTenant{Name: t.Name, Tier: t.Tier, Group: t.Group, Share: s.Part, Limits: limitList(snap.Limits(t, p))})
		}
		v.Pools = append(v.Pools, pv)
	}
	return v
}

// limitList is never nil, so that JSON shows an empty list as [].
func limitList(limits []tenants.Limit) []tenants.Limit {
	if limits == nil {
		return []tenants.Limit{}
	}
	return limits
}
