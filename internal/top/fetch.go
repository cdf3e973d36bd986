package top

import (
	"context"
	"time"

	"github.com/llmgov/llmgov/internal/adminapi"
)

// Ask gets a path of the admin API, and decodes the answer.
type Ask func(ctx context.Context, path string, into any) error

// patience is how long one look at the gateway may take, and pause how long it is left in
// peace between two.
const (
	patience = 5 * time.Second
	pause    = time.Second
)

// Data is what was found in one look at the gateway.
type Data struct {
	adminapi.Snapshot
	At     time.Time
	Leases []adminapi.Lease
	// LeasesTotal is how many there are, which may be more than are known.
	LeasesTotal int
}

// wants are the lists that are to be whole.
type wants struct{ shares, leases bool }

// fetch looks at the gateway.
func fetch(ctx context.Context, ask Ask, w wants, now func() time.Time) (*Data, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	d := &Data{}
	if err := ask(ctx, "/api/v1/snapshot", &d.Snapshot); err != nil {
		return nil, err
	}
	if w.shares && d.sharesMissing() {
		if err := d.fetchShares(ctx, ask); err != nil {
			return nil, err
		}
	}
	if err := d.fetchLeases(ctx, ask, w.leases); err != nil {
		return nil, err
	}
	d.At = now()
	return d, nil
}

// sharesMissing says whether there are tenants that the snapshot has no room for.
func (d *Data) sharesMissing() bool {
	for i := range d.Pools {
		if f := &d.Pools[i].Fairness; f.TenantsTotal > len(f.Tenants) {
			return true
		}
	}
	return false
}

func (d *Data) fetchShares(ctx context.Context, ask Ask) error {
	var all adminapi.FairnessList
	if err := ask(ctx, "/api/v1/fairness", &all); err != nil {
		return err
	}
	for i := range d.Pools {
		for k := range all.Pools {
			if all.Pools[k].Name == d.Pools[i].Name {
				d.Pools[i].Fairness = all.Pools[k].Fairness
			}
		}
	}
	return nil
}

// fetchLeases takes those that the snapshot has, or asks for all: also for those of pools that
// the policy has no more.
func (d *Data) fetchLeases(ctx context.Context, ask Ask, whole bool) error {
	if whole {
		var all adminapi.LeaseList
		err := ask(ctx, "/api/v1/leases", &all)
		d.Leases = all.Leases
		d.LeasesTotal = len(all.Leases)
		return err
	}
	for i := range d.Pools {
		d.Leases = append(d.Leases, d.Pools[i].Leases...)
		d.LeasesTotal += d.Pools[i].LeasesTotal
	}
	return nil
}

// pool finds a pool, or nil.
func (d *Data) pool(name string) *adminapi.Pool {
	for i := range d.Pools {
		if d.Pools[i].Name == name {
			return &d.Pools[i]
		}
	}
	return nil
}

// shared says whether any pool is shared with other gateways.
func (d *Data) shared() bool {
	for i := range d.Pools {
		if d.Pools[i].Sharing != nil {
			return true
		}
	}
	return false
}
