package fairness

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// claim is a tree as tests draw it.
type claim struct {
	weight, floor float64
	demand        float64 // of a leaf
	below         []*claim
}

// plant builds the tree, and lists what its leaves want.
func (c *claim) plant(t *Tree, parent int, demands []float64) []float64 {
	if len(c.below) == 0 {
		t.Floor(t.Leaf(parent, c.weight), c.floor)
		return append(demands, c.demand)
	}
	at := t.Inner(parent, c.weight)
	t.Floor(at, c.floor)
	for _, b := range c.below {
		demands = b.plant(t, at, demands)
	}
	return demands
}

func (c *claim) wants() (sum float64) {
	if len(c.below) == 0 {
		return c.demand
	}
	for _, b := range c.below {
		sum += b.wants()
	}
	return sum
}

// least is what floors, its own or those below, give it before all weights.
func (c *claim) least() (sum float64) {
	for _, b := range c.below {
		sum += b.least()
	}
	return max(sum, min(c.floor, c.wants()))
}

// trial is weighted max-min by trial: it looks for the level at which all get
// min(what they want, max(floor, weight · level)), at every node from the top down.
func trial(list []*claim, capacity float64) (out []float64) {
	floors := 0.0
	for _, c := range list {
		floors += c.least()
	}
	scale := 1.0
	if floors > capacity {
		scale = capacity / floors
	}
	at := func(c *claim, level float64) float64 {
		return min(c.wants(), max(c.least()*scale, c.weight*level))
	}
	lo := 0.0
	hi := 1e9
	for range 200 {
		mid := (lo + hi) / 2
		all := 0.0
		for _, c := range list {
			all += at(c, mid)
		}
		if all < capacity {
			lo = mid
		} else {
			hi = mid
		}
	}
	for _, c := range list {
		if part := at(c, lo); len(c.below) > 0 {
			out = append(out, trial(c.below, part)...)
		} else {
			out = append(out, part)
		}
	}
	return out
}

func drawClaims(t *rapid.T, depth int, floors bool) []*claim {
	list := make([]*claim, rapid.IntRange(1, 4).Draw(t, "children"))
	for i := range list {
		c := &claim{weight: float64(rapid.IntRange(1, 9000).Draw(t, "weight"))}
		if floors && rapid.Bool().Draw(t, "floored") {
			c.floor = rapid.Float64Range(0, 1500).Draw(t, "floor")
		}
		if depth > 0 && rapid.Bool().Draw(t, "inner") {
			c.below = drawClaims(t, depth-1, floors)
		} else if rapid.IntRange(0, 3).Draw(t, "idle") > 0 {
			c.demand = rapid.Float64Range(0, 2000).Draw(t, "demand")
		}
		list[i] = c
	}
	return list
}

// TestMaxMinIsTrial: the split is that of a search by trial, with floors and without;
// nobody gets more than it wants, and all of what there is, or is wanted, is given.
func TestMaxMinIsTrial(t *testing.T) {
	for _, floors := range []bool{false, true} {
		t.Run(fmt.Sprint("floors=", floors), rapid.MakeCheck(func(t *rapid.T) {
			list := drawClaims(t, 2, floors)
			capacity := rapid.Float64Range(0.1, 5000).Draw(t, "capacity")
			tree := NewTree()
			var demands []float64
			for _, c := range list {
				demands = c.plant(tree, Root, demands)
			}
			got := make([]float64, tree.Leaves())
			tree.MaxMin(capacity, demands, got)
			want := trial(list, capacity)
			given := 0.0
			wanted := 0.0
			for i := range want {
				if math.Abs(got[i]-want[i]) > 1e-6*(1+capacity) {
					t.Fatalf("leaf %d wants %g: got %g, by trial %g", i, demands[i], got[i], want[i])
				}
				if got[i] > demands[i]+1e-9 {
					t.Fatalf("leaf %d wants %g and gets %g", i, demands[i], got[i])
				}
				given = given + got[i]
				wanted = wanted + demands[i]
			}
			if most := min(capacity, wanted); math.Abs(given-most) > 1e-6*(1+capacity) {
				t.Fatalf("%g was shared out, want %g", given, most)
			}
		}))
	}
}

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
