package top

import (
	"context"
	"net/url"
	"time"

	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

// Ask gets a path of the admin API, and decodes the answer.
type Ask func(ctx context.Context, path string, into any) error

// patience is the longest time of one poll of the gateway, and pause the time between two.
const (
	patience = 5 * time.Second
	pause    = time.Second
)

// Data is the result of one poll of the gateway.
type Data struct {
	adminapi.Snapshot
	At     time.Time
	Leases []adminapi.Lease
	// LeasesTotal is the number of all leases, of which Leases may be a part.
	LeasesTotal int
	// Members are those of the tenant that is looked at; nil if it has none.
	Members *adminapi.Members
}

// wants are the lists that are needed whole.
type wants struct {
	shares, leases bool
	members        string // of the tenant
}

// fetch polls the gateway.
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
	if w.members != "" {
		var one adminapi.TenantList
		if err := ask(ctx, "/api/v1/tenants?limit=1&tenant="+url.QueryEscape(w.members), &one); err != nil {
			return nil, err
		}
		for i := range one.Tenants {
			d.Members = one.Tenants[i].Members
		}
	}
	d.At = now()
	return d, nil
}

// sharesMissing reports whether there are more tenants than the snapshot lists.
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

// fetchLeases returns the leases of the snapshot, or reads all, with those of pools that the policy
// no longer has.
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

// shared reports whether any pool is shared with other gateways.
func (d *Data) shared() bool {
	for i := range d.Pools {
		if d.Pools[i].Sharing != nil {
			return true
		}
	}
	return false
}
