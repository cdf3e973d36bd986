package admin

import (
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/tenants"
)

// policyOf shows a policy.
func policyOf(snap *tenants.Snapshot, which *page) adminapi.Policy {
	v := adminapi.Policy{Hash: snap.Hash(), Pools: []adminapi.PolicyPool{}}
	pools := snap.Pools()
	for i := range pools {
		p := &pools[i]
		pv := adminapi.PolicyPool{
			Name:    p.Name,
			Models:  p.Models,
			Limits:  listed(snap.PoolLimits(p)),
			Tenants: []adminapi.PolicyTenant{},
		}
		for _, s := range snap.Shares(p) {
			t := s.Tenant
			if !which.has(t) || which.limit > 0 && len(pv.Tenants) >= which.limit {
				continue
			}
			pv.Tenants = append(pv.Tenants, adminapi.PolicyTenant{
				Name:   t.Name,
				Tier:   t.Tier,
				Group:  t.Group,
				Share:  s.Part,
				Limits: listed(snap.Limits(t, p)),
			})
		}
		v.Pools = append(v.Pools, pv)
	}
	return v
}

// listed is a list that JSON shows as [] if it is empty.
func listed[T any](list []T) []T { return append([]T{}, list...) }
