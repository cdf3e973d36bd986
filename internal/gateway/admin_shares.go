package gateway

import (
	"cmp"
	"slices"
	"time"

	"github.com/llmgov/llmgov/governor"
)

// shareView is what a tenant had of a pool in the pool's last minute, and what it was entitled to,
// as parts of the whole. docs/api.md explains each field.
type shareView struct {
	Name       string  `json:"name"`
	Weight     float64 `json:"weight"`
	Guaranteed float64 `json:"guaranteed_ratio"` // by weight alone
	Entitled   float64 `json:"entitled_ratio"`
	Received   float64 `json:"received_ratio"`
	Demand     float64 `json:"demand_ratio"`
	Running    int     `json:"running"`
	Queued     int     `json:"queued"`
	OldestWait float64 `json:"oldest_wait_seconds"`
	Debt       int64   `json:"debt_tokens"`
	Borrowed   int64   `json:"borrowed_tokens"` // since the process began, as Lent
	Lent       int64   `json:"lent_tokens"`
}

// fairnessView is how fairly a pool was shared in the last minute.
type fairnessView struct {
	Jain         float64 `json:"jain_index"`
	Deviation    float64 `json:"max_deviation_ratio"`
	Unused       int64   `json:"unused_while_waiting_tokens"` // since the process began
	TenantsTotal int     `json:"tenants_total"`
	// Tenants are in the order of the policy.
	Tenants []shareView `json:"tenants"`
}

// poolFairness is the fairnessView of one pool in a list.
type poolFairness struct {
	Name string `json:"name"`
	FairnessView
}

// snapshotTop is how many tenants and leases of a pool the snapshot lists. It is asked for every
// second, by a page that has no room for more.
const snapshotTop = 100

// fairnessOf lists at most so many tenants: those that ask for most, or had most.
func fairnessOf(p *governor.PoolState, most int) fairnessView {
	v := fairnessView{Jain: p.Jain, Deviation: p.Deviation, Unused: p.Unused, TenantsTotal: len(p.Shares), Tenants: []shareView{}}
	order := make([]int, len(p.Shares))
	for i := range order {
		order[i] = i
	}
	if len(order) > most {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(stir(&p.Shares[b]), stir(&p.Shares[a])) })
		order = order[:most]
		slices.Sort(order)
	}
	for _, i := range order {
		s := &p.Shares[i]
		v.Tenants = append(v.Tenants, shareView{
			Name: s.Tenant, Weight: inOnes(s.Weight), Guaranteed: s.Guaranteed,
			Entitled: s.Entitled, Received: s.Received, Demand: s.Demand,
			Running: s.Running, Queued: s.Queued, OldestWait: s.OldestWait.Seconds(),
			Debt: s.Debt, Borrowed: int64(s.Borrowed), Lent: int64(s.Lent),
		})
	}
	return v
}

// oldestWait is how many seconds the call that has waited longest for a pool has waited.
func oldestWait(p *governor.PoolState) float64 {
	d := time.Duration(0)
	for i := range p.Shares {
		d = max(d, p.Shares[i].OldestWait)
	}
	return d.Seconds()
}

// stir measures how much is going on at a tenant.
func stir(s *governor.TenantShare) float64 {
	return max(s.Demand, s.Received, s.Entitled) + float64(s.Running+s.Queued)/1e6
}

// fairnessViews are those of all pools, with all tenants.
func (g *Gateway) fairnessViews() []poolFairness {
	out := []poolFairness{}
	s := g.gov.State()
	for i := range s.Pools {
		p := &s.Pools[i]
		out = append(out, poolFairness{p.Config.Name, fairnessOf(p, len(p.Shares))})
	}
	return out
}

// oldest lists at most so many leases, oldest first.
func oldest(leases []leaseView, most int) []leaseView {
	slices.SortStableFunc(leases, func(a, b leaseView) int { return cmp.Compare(b.AgeSeconds, a.AgeSeconds) })
	return leases[:min(len(leases), most)]
}
