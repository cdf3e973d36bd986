package simulate

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/escrow"
)

// bisect is weighted max-min by trial: it looks for the level at which all get
// min(what they want, weight · level), at every node from the top down.
func bisect(tenants []Tenant, capacity float64, demands []float64) []float64 {
	wants := make([]float64, len(tenants))
	var spans [][]float64 // the demands below each tenant
	for i := range tenants {
		n := len(NewTree([]Tenant{tenants[i]}).Leaves)
		spans = append(spans, demands[:n])
		wants[i], demands = sum(demands[:n]), demands[n:]
	}
	filled := func(level float64) (all float64) {
		for i, x := range wants {
			all += min(x, float64(tenants[i].Weight)*level)
		}
		return all
	}
	lo, hi := 0.0, 1e12
	for range 200 {
		if mid := (lo + hi) / 2; filled(mid) < capacity {
			lo = mid
		} else {
			hi = mid
		}
	}
	var out []float64
	for i := range tenants {
		part := min(wants[i], float64(tenants[i].Weight)*hi)
		if len(tenants[i].Teams) == 0 {
			out = append(out, part)
			continue
		}
		out = append(out, bisect(tenants[i].Teams, part, spans[i])...)
	}
	return out
}

func drawTenants(t *rapid.T, depth int, label string) []Tenant {
	list := make([]Tenant, rapid.IntRange(1, 4).Draw(t, label+"n"))
	for i := range list {
		list[i] = Tenant{
			Name:   fmt.Sprint("t", i),
			Weight: escrow.Weight(rapid.IntRange(1, 9000).Draw(t, label+"weight")),
		}
		if depth > 0 && rapid.Bool().Draw(t, label+"inner") {
			list[i].Teams = drawTenants(t, depth-1, label+"/")
		}
	}
	return list
}

func TestMaxMinIsBisection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tenants := drawTenants(t, 2, "")
		tree := NewTree(tenants)
		demands := make([]float64, len(tree.Leaves))
		for i := range demands {
			if rapid.IntRange(0, 3).Draw(t, "idle") > 0 {
				demands[i] = rapid.Float64Range(0, 2000).Draw(t, "demand")
			}
		}
		capacity := rapid.Float64Range(0.1, 5000).Draw(t, "capacity")
		got := make([]float64, len(demands))
		tree.MaxMin(capacity, demands, got)
		want := bisect(tenants, capacity, demands)
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-6*(1+capacity) {
				t.Fatalf("leaf %s wants %g: got %g, by bisection %g", tree.Leaves[i].Path, demands[i], got[i], want[i])
			}
			if got[i] > demands[i]+1e-9 {
				t.Fatalf("leaf %s wants %g and gets %g", tree.Leaves[i].Path, demands[i], got[i])
			}
		}
		if all, most := sum(got), min(capacity, sum(demands)); math.Abs(all-most) > 1e-6*(1+capacity) {
			t.Fatalf("%g was shared out, want %g", all, most)
		}
	})
}

func TestMaxMin(t *testing.T) {
	tree := NewTree([]Tenant{
		{Name: "org", Weight: 3000, Teams: []Tenant{{Name: "x", Weight: 3000}, {Name: "y", Weight: 1000}}},
		{Name: "b", Weight: 1000},
	})
	const endless = 1e9
	for _, c := range []struct {
		what          string
		demands, want []float64
	}{
		{"all are backlogged", []float64{endless, endless, endless}, []float64{45, 15, 20}},
		{"what y leaves goes to its sibling first", []float64{endless, 5, endless}, []float64{55, 5, 20}},
		{"what b leaves goes to the organisation", []float64{endless, endless, 8}, []float64{54, 18, 8}},
		{"what the organisation leaves goes to b", []float64{10, 20, endless}, []float64{10, 20, 50}},
		{"nobody wants all of it", []float64{1, 2, 3}, []float64{1, 2, 3}},
		{"nobody wants anything", []float64{0, 0, 0}, []float64{0, 0, 0}},
	} {
		got := make([]float64, 3)
		tree.MaxMin(80, c.demands, got)
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-9 {
				t.Errorf("%s: got %v, want %v", c.what, got, c.want)
				break
			}
		}
	}
	if got := tree.Leaves[1]; got.Path != "org/y" || math.Abs(got.Guaranteed-3.0/16) > 1e-12 {
		t.Errorf("org/y is %s with %g, want 3/16", got.Path, got.Guaranteed)
	}
}
