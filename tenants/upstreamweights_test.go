package tenants

import (
	"slices"
	"testing"
)

// Weights that are left out follow the limits, where these say something of all upstreams of an order; so they are used up together.
func TestUpstreamWeights_LeftOut(t *testing.T) {
	for _, tc := range []struct {
		name string
		list []PoolUpstream
		want []int64
	}{
		{"as their tpm", []PoolUpstream{{TPM: 200_000}, {TPM: 600_000}}, []int64{1, 3}},
		{"in each order", []PoolUpstream{{TPM: 200_000}, {TPM: 700_000, Order: 1}, {TPM: 300_000}, {TPM: 100_000, Order: 1}}, []int64{2, 7, 3, 1}},
		{"which has all of its own", []PoolUpstream{{TPM: 500_000}, {Order: 1}, {TPM: 100_000, Order: 1}}, []int64{1, 1, 1}},
		{"one is written", []PoolUpstream{{TPM: 200_000, Weight: 2}, {TPM: 600_000}}, []int64{2, 1}},
		{"all are written", []PoolUpstream{{TPM: 200_000, Weight: 1}, {TPM: 600_000, Weight: 1}}, []int64{1, 1}},
		{"one has no tpm", []PoolUpstream{{TPM: 200_000}, {RPM: 10}}, []int64{1, 1}},
		{"none has", []PoolUpstream{{}, {}}, []int64{1, 1}},
		{"no more than a weight may be", []PoolUpstream{{TPM: 1}, {TPM: 700_001}, {TPM: 1_000_003}}, []int64{1, 699, 1000}},
	} {
		p := Pool{Upstreams: tc.list}
		p.defaultWeights()
		var got []int64
		for i := range p.Upstreams {
			got = append(got, p.Upstreams[i].Weight)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// The same when a config is put in force.
func TestUpstreamWeights_Built(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Upstreams = []Upstream{{Name: "a", BaseURL: "http://a/v1"}, {Name: "b", BaseURL: "http://b/v1"}}
	pool := DefaultPool("p")
	pool.Models = []string{"m"}
	pool.Upstreams = []PoolUpstream{{Name: "a", TPM: 200_000}, {Name: "b", TPM: 600_000}}
	cfg.Pools = []Pool{pool}
	snap, err := Build(cfg, []Tenant{{Name: "acme", Tier: "t", Keys: []Key{{Hash: HashKey("acme")}}}})
	if err != nil {
		t.Fatal(err)
	}
	if list := snap.Pools()[0].Upstreams; list[0].Weight != 1 || list[1].Weight != 3 {
		t.Errorf("weights %d and %d, want 1 and 3", list[0].Weight, list[1].Weight)
	}
}
