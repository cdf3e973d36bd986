package fairness

import "github.com/llmgov/llmgov/internal/lib/maxmin"

// Root is the node that all others of a Tree are below.
const Root = 0

// Tree is the claims on a capacity: leaves, which want something of it, and nodes that
// share their part among their children. It has scratch space, so it is not for
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

	// claims are scratch of MaxMin: the demands of children, by the child's number.
	claims []maxmin.Claim
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

// Floor sets how much of a node's demand comes before all weights.
func (t *Tree) Floor(node int, amount float64) { t.nodes[node].floor = amount }

// Sum adds up an amount over the leaves below a node.
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

// Guaranteed writes to out, by leaf, the part of the capacity that each has when all want
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

// demand fills in the claims of the children of node n, and returns their sum, and how much of
// it is covered by floors, its own or those below it.
func (t *Tree) demand(n int, demands []float64) (sum, floor float64) {
	nd := &t.nodes[n]
	if nd.leaf >= 0 {
		return demands[nd.leaf], min(nd.floor, demands[nd.leaf])
	}
	nd.claims = nd.claims[:0]
	for _, c := range nd.children {
		amount, below := t.demand(c, demands)
		if amount <= 0 {
			continue
		}
		nd.claims = append(nd.claims, maxmin.Claim{ID: c, Weight: t.nodes[c].weight, Floor: below, Demand: amount})
		sum += amount
		floor += below
	}
	return sum, max(floor, min(nd.floor, sum))
}

// pour gives node n a capacity, to be shared by its children.
func (t *Tree) pour(n int, capacity float64, demands, out []float64) {
	nd := &t.nodes[n]
	if nd.leaf >= 0 {
		out[nd.leaf] = min(capacity, demands[nd.leaf])
		return
	}
	maxmin.Divide(capacity, nd.claims)
	for i := range nd.claims {
		child := &nd.claims[i]
		t.pour(child.ID, child.Share, demands, out)
	}
}
