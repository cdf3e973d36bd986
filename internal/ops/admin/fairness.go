package admin

import (
	"cmp"
	"slices"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

// snapshotTop is the number of tenants and leases of a pool in the snapshot, because pages that
// read it every second show no more.
const snapshotTop = 100

// fairnessOf lists at most so many tenants: those with the largest demand or usage.
func fairnessOf(p *governor.PoolState, most int) adminapi.Fairness {
	v := adminapi.Fairness{Jain: p.Jain, Deviation: p.Deviation, Unused: p.Unused, TenantsTotal: p.Members, Tenants: []adminapi.Share{}}
	order := make([]int, len(p.Shares))
	for i := range order {
		order[i] = i
	}
	if len(order) > most {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(activity(&p.Shares[b]), activity(&p.Shares[a])) })
		order = order[:most]
		slices.Sort(order)
	}
	for _, i := range order {
		s := &p.Shares[i]
		v.Tenants = append(v.Tenants, adminapi.Share{
			Name: s.Tenant, Weight: float64(s.Weight), Guaranteed: s.Guaranteed,
			Entitled: s.Entitled, Received: s.Received, Demand: s.Demand,
			Running: s.Running, Queued: s.Queued, OldestWait: s.OldestWait.Seconds(),
			Debt: s.Debt, Borrowed: int64(s.Borrowed), Lent: int64(s.Lent),
		})
	}
	return v
}

// oldestWait is the longest time, in seconds, that a call has waited for a pool.
func oldestWait(p *governor.PoolState) float64 {
	d := time.Duration(0)
	for i := range p.Shares {
		d = max(d, p.Shares[i].OldestWait)
	}
	return d.Seconds()
}

// activity is the activity of a tenant, to order tenants by.
func activity(s *governor.TenantShare) float64 {
	return max(s.Demand, s.Received, s.Entitled) + float64(s.Running+s.Queued)/1e6
}

// fairness is that of all pools.
func (a *API) fairness(which *page) []adminapi.PoolFairness {
	out := []adminapi.PoolFairness{}
	s := a.Governor.State(a.shown(which)...)
	for i := range s.Pools {
		p := &s.Pools[i]
		out = append(out, adminapi.PoolFairness{Name: p.Config.Name, Fairness: fairnessOf(p, cmp.Or(which.limit, len(p.Shares)))})
	}
	return out
}

// oldest lists at most so many leases, oldest first.
func oldest(leases []adminapi.Lease, most int) []adminapi.Lease {
	slices.SortStableFunc(leases, func(a, b adminapi.Lease) int { return cmp.Compare(b.AgeSeconds, a.AgeSeconds) })
	return leases[:min(len(leases), most)]
}
