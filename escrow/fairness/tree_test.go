package fairness

import (
	"math"
	"testing"
)

func TestMaxMin(t *testing.T) {
	const endless = 1e9
	for _, c := range []struct {
		what          string
		floors        [3]float64 // of the organisation, of its team y, of b
		demands, want [3]float64 // of x and y of the organisation, and of b
	}{
		{"all are backlogged", [3]float64{}, [3]float64{endless, endless, endless}, [3]float64{45, 15, 20}},
		{"what y leaves goes to its sibling first", [3]float64{}, [3]float64{endless, 5, endless}, [3]float64{55, 5, 20}},
		{"what b leaves goes to the organisation", [3]float64{}, [3]float64{endless, endless, 8}, [3]float64{54, 18, 8}},
		{"what the organisation leaves goes to b", [3]float64{}, [3]float64{10, 20, endless}, [3]float64{10, 20, 50}},
		{"nobody wants all of it", [3]float64{}, [3]float64{1, 2, 3}, [3]float64{1, 2, 3}},
		{"nobody wants anything", [3]float64{}, [3]float64{}, [3]float64{}},
		{"a floor below the share changes nothing", [3]float64{0, 0, 19}, [3]float64{endless, endless, endless}, [3]float64{45, 15, 20}},
		{"a floor above it is given first", [3]float64{0, 0, 40}, [3]float64{endless, endless, endless}, [3]float64{30, 10, 40}},
		{"what a floor is not asked for goes to all", [3]float64{0, 0, 40}, [3]float64{endless, endless, 4}, [3]float64{57, 19, 4}},
		{"a team's floor counts beside its siblings", [3]float64{0, 30, 0}, [3]float64{endless, endless, endless}, [3]float64{30, 30, 20}},
		{"and beyond what is above it", [3]float64{0, 70, 0}, [3]float64{endless, endless, endless}, [3]float64{0, 70, 10}},
		{"a team's floor that is not asked for lifts nothing above it", [3]float64{0, 70, 0}, [3]float64{endless, 5, endless}, [3]float64{55, 5, 20}},
		{"an organisation's floor is its teams' together", [3]float64{70, 0, 0}, [3]float64{endless, endless, endless}, [3]float64{52.5, 17.5, 10}},
		{"more floors than there is", [3]float64{0, 120, 40}, [3]float64{endless, endless, endless}, [3]float64{0, 60, 20}},
	} {
		tree := NewTree()
		org := tree.Inner(Root, 3)
		tree.Leaf(org, 3)
		y := tree.Leaf(org, 1)
		b := tree.Leaf(Root, 1)
		for i, n := range []int{org, y, b} {
			tree.Floor(n, c.floors[i])
		}
		var got [3]float64
		tree.MaxMin(80, c.demands[:], got[:])
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-9 {
				t.Errorf("%s: got %v, want %v", c.what, got, c.want)
				break
			}
		}
	}
}

// TestMaxMin_DeepFloor: a floor that is not asked for lifts nothing two levels above it.
func TestMaxMin_DeepFloor(t *testing.T) {
	tree := NewTree()
	org := tree.Inner(Root, 3)
	team := tree.Inner(org, 1)
	tree.Floor(team, 70)
	tree.Leaf(team, 1)
	tree.Leaf(org, 1)
	tree.Leaf(Root, 1)
	var got [3]float64
	tree.MaxMin(80, []float64{5, 1e9, 1e9}, got[:])
	if want := [3]float64{5, 55, 20}; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestGuaranteed(t *testing.T) {
	tree := NewTree()
	org := tree.Inner(Root, 3)
	tree.Leaf(org, 3)
	tree.Leaf(org, 1)
	tree.Leaf(Root, 1)
	var got [3]float64
	tree.Guaranteed(got[:])
	if want := [3]float64{9. / 16, 3. / 16, 4. / 16}; got != want {
		t.Errorf("guaranteed are %v, want %v", got, want)
	}
}
