package operations

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/tenants"
)

// The operator sees who belongs to whom, with which weight, and limits with the pool
// for which they hold.
func TestAdminTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := harness.New(t, harness.World{Pool: harness.Pool(0, 1, 0), Tenants: []tenants.Tenant{harness.Tenant("first", 1)}})
		s.Apply(harness.PolicyFromFiles(t, "tpm: 60000", `
tiers:
  free: {weight: 2, group: true, tenant_weight: 0.5}
tenants:
  acme:
    rpm: 100
    pools: {p: {tpm: 5000}}
    teams:
      search: {weight: 3, keys: [KEY(a)], teams: {eu: {pools: {p: {concurrency: 4}}, keys: [KEY(b)]}}}
  ann: {tier: free, keys: [KEY(c)]}
`))
		type axis struct {
			Axis, Pool string
			Limit      int64
		}
		type view struct {
			Name, Parent, Tier, Group string
			Weight                    float64
			GroupWeight               float64 `json:"group_weight"`
			Limits                    []axis
		}
		var got struct{ Tenants []view }
		s.Admin("/api/v1/tenants", &got)
		want := []view{
			{Name: "acme", Weight: 1, Limits: []axis{{"requests", "", 100}, {"tokens", "p", 5000}}},
			{Name: "acme/search", Parent: "acme", Weight: 3, Limits: []axis{}},
			{Name: "acme/search/eu", Parent: "acme/search", Weight: 1, Limits: []axis{{"concurrency", "p", 4}}},
			{Name: "ann", Tier: "free", Group: "free", Weight: 0.5, GroupWeight: 2, Limits: []axis{}},
		}
		if diff := cmp.Diff(want, got.Tenants); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// The operator sees the policy in force, and for each limit whose it is.
func TestAdminPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := harness.New(t, harness.World{Pool: harness.Pool(0, 1, 0), Tenants: []tenants.Tenant{harness.Tenant("first", 1)}})
		s.Apply(harness.PolicyFromFiles(t, "tpm: 60000", `
tenants:
  acme:
    rpm: 100
    teams:
      search: {weight: 3, rpm: 200, keys: [KEY(a)]}
  ann: {keys: [KEY(b)]}
`))
		type limit struct {
			Key, From, Of string
			Value         any
		}
		var got struct {
			Pools []struct {
				Name    string
				Limits  []limit
				Tenants []struct {
					Name   string
					Share  float64 `json:"share_ratio"`
					Limits []limit
				}
			}
		}
		s.Admin("/api/v1/policy", &got)
		if len(got.Pools) != 1 || len(got.Pools[0].Limits) == 0 {
			t.Fatalf("pools: %+v", got.Pools)
		}
		shares := map[string]float64{}
		var rpm limit
		for _, one := range got.Pools[0].Tenants {
			shares[one.Name] = one.Share
			for _, l := range one.Limits {
				if one.Name == "acme/search" && l.Key == "rpm" && l.Of != "" {
					rpm = l
				}
			}
		}
		if diff := cmp.Diff(map[string]float64{"acme": 0, "acme/search": 0.5, "ann": 0.5}, shares); diff != "" {
			t.Errorf("shares (-want +got):\n%s", diff)
		}
		if rpm.Of != "acme" || rpm.Value != 100.0 || rpm.From == "" {
			t.Errorf("the team's strictest rpm is its parent's, as written in a file; got %+v", rpm)
		}
	})
}
