package fairness

import "slices"

// Root is the node that all others of a Tree are below.
const Root = 0

// Tree is the claims on a capacity: leaves, which want something of it, and nodes that
// share what they get among what is below them. It has scratch space, so it is not for
// two goroutines.
type Tree struct {
	nodes  []node
	leaves int
}

type node struct {
	weight   float64
	children []int // nodes; none for a leaf
	leaf     int   // its number, -1 for an inner node
	floor    float64

	// Scratch of MaxMin, by child: what it wants.
	wants []want
}

type want struct {
	node   int
	amount float64
	level  float64 // amount over weight
	floor  float64 // of the amount, what comes before all weights
	pinned bool    // to the floor, which is more than the weight comes to
}

// NewTree returns a tree that has no leaves.
func NewTree() *Tree { return &Tree{nodes: []node{{weight: 1, leaf: -1}}} }

// Inner adds a node below another and returns it.
func (t *Tree) Inner(parent int, weight float64) int { return t.add(parent, weight, -1) }

// Leaf adds a leaf below a node and returns it. Leaves are numbered from 0 in the order
// in which they are added.
func (t *Tree) Leaf(parent int, weight float64) int {
	t.leaves++
	return t.add(parent, weight, t.leaves-1)
}

func (t *Tree) add(parent int, weight float64, leaf int) int {
	t.nodes = append(t.nodes, node{weight: weight, leaf: leaf})
	t.nodes[parent].children = append(t.nodes[parent].children, len(t.nodes)-1)
	return len(t.nodes) - 1
}

// Leaves is how many there are.
func (t *Tree) Leaves() int { return t.leaves }

// Floor sets how much of what a node wants comes before all weights.
func (t *Tree) Floor(node int, amount float64) { t.nodes[node].floor = amount }

// Sum adds up what the leaves below a node have of something.
func (t *Tree) Sum(n int, of []float64) float64 {
	nd := &t.nodes[n]
	if nd.leaf >= 0 {
		return of[nd.leaf]
	}
	sum := 0.0
	for _, c := range nd.children {
		sum += t.Sum(c, of)
	}
	return sum
}

// Guaranteed writes to out, by leaf, what part of the capacity each has when all want
// all they can get, floors aside.
func (t *Tree) Guaranteed(out []float64) { t.guarantee(Root, 1, out) }

func (t *Tree) guarantee(n int, part float64, out []float64) {
	nd := &t.nodes[n]
	if nd.leaf >= 0 {
		out[nd.leaf] = part
		return
	}
	all := 0.0
	for _, c := range nd.children {
		all += t.nodes[c].weight
	}
	for _, c := range nd.children {
		t.guarantee(c, part*t.nodes[c].weight/all, out)
	}
}

// MaxMin shares a capacity between leaves by weighted max-min fairness at every
// node of the tree: nobody gets more than it demands, and nobody could be given
// more but at the cost of a sibling that has less for its weight. What siblings
// leave goes to siblings before it goes to cousins. A node with a floor gets that, or
// what it demands if that is less, also where its weight comes to less. It writes each
// leaf's part to out; both are by leaf.
func (t *Tree) MaxMin(capacity float64, demands, out []float64) {
	clear(out)
	t.demand(Root, demands)
	t.pour(Root, capacity, demands, out)
}

// demand fills in what each child of node n wants, and returns the sum, and how much of
// it is covered by floors, its own or those below it.
func (t *Tree) demand(n int, demands []float64) (sum, floor float64) {
	nd := &t.nodes[n]
	if nd.leaf >= 0 {
		return demands[nd.leaf], min(nd.floor, demands[nd.leaf])
	}
	wants := nd.wants[:0]
	for _, c := range nd.children {
		amount, below := t.demand(c, demands)
		if amount > 0 {
			wants = append(wants, want{node: c, amount: amount, level: amount / t.nodes[c].weight, floor: below})
			sum += amount
			floor += below
		}
	}
	nd.wants = wants
	return sum, max(floor, min(nd.floor, sum))
}

// pour gives node n a capacity, to be shared by its children. The ones that
// want least for their weight are filled first; as soon as one cannot be, it
// and all after it get the same for their weight.
func (t *Tree) pour(n int, capacity float64, demands, out []float64) {
	nd := &t.nodes[n]
	if nd.leaf >= 0 {
		out[nd.leaf] = min(capacity, demands[nd.leaf])
		return
	}
	slices.SortFunc(nd.wants, func(a, b want) int {
		switch {
		case a.level < b.level:
			return -1
		case a.level > b.level:
			return 1
		}
		return a.node - b.node // sums of floats are to be the same every time
	})
	capacity = t.pourFloors(nd.wants, capacity, demands, out)
	weights := t.unpinned(nd.wants)
	for _, w := range nd.wants {
		if w.pinned {
			continue
		}
		weight := t.nodes[w.node].weight
		part := min(w.amount, capacity*weight/weights)
		t.pour(w.node, part, demands, out)
		capacity -= part
		weights -= weight
	}
}

// pourFloors gives those children their floors whose weights come to less, and returns
// what is left for the others. What does not suffice for all floors is shared in
// proportion to them.
func (t *Tree) pourFloors(wants []want, capacity float64, demands, out []float64) float64 {
	floors := 0.0
	for _, w := range wants {
		floors += w.floor
	}
	if floors == 0 {
		return capacity
	}
	scale := min(1, capacity/floors)
	left := capacity
	for again := true; again; {
		again = false
		level, bound := t.level(wants, left)
		for i := range wants {
			w := &wants[i]
			if !w.pinned && w.floor > 0 && (scale < 1 || bound && w.floor > level*t.nodes[w.node].weight) {
				w.pinned, again = true, true
				left -= w.floor * scale
			}
		}
	}
	for _, w := range wants {
		if w.pinned {
			t.pour(w.node, w.floor*scale, demands, out)
		}
	}
	return max(0, left)
}

// unpinned is the weight of all children that are not pinned to their floor.
func (t *Tree) unpinned(wants []want) float64 {
	weights := 0.0
	for _, w := range wants {
		if !w.pinned {
			weights += t.nodes[w.node].weight
		}
	}
	return weights
}

// level is what each unit of weight gets of a capacity, and whether anybody wants more
// than that.
func (t *Tree) level(wants []want, capacity float64) (level float64, bound bool) {
	weights := t.unpinned(wants)
	for _, w := range wants {
		if w.pinned {
			continue
		}
		if w.level > capacity/weights {
			return capacity / weights, true
		}
		capacity -= w.amount
		weights -= t.nodes[w.node].weight
	}
	return 0, false
}
