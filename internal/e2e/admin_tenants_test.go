package e2e

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/tenants"
)

// The operator sees who belongs to whom, with which weight, and limits with the pool
// for which they hold.
func TestAdminTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, world{pool: pool(0, 1, 0), tenants: []tenants.Tenant{tenant("first", 1)}})
		defer s.close()
		s.apply(fromFiles(t, "tpm: 60000", `
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
		s.admin("/api/v1/tenants", &got)
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
