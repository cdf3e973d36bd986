package simulate

import (
	"slices"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/federation"
)

// Leaf is a tenant with a load: a place where requests are offered.
type Leaf struct {
	// Path is the tenant's name after those of its parents: "org/team".
	Path string
	*Tenant
	// Guaranteed is the part of the pool that the leaf has when everybody is busy.
	Guaranteed float64
}

// Tree is the claims on a pool, for the oracles.
type Tree struct {
	Leaves []Leaf
	nodes  []treeNode
}

type treeNode struct {
	weight   float64
	children []int // nodes; none for a leaf
	leaf     int   // index into Leaves, -1 for an inner node

	// Scratch of MaxMin, by child: what it wants, in the order of want over weight.
	wants []want
}

type want struct {
	node   int
	amount float64
	level  float64 // amount over weight
}

// NewTree is the tree of a scenario's tenants.
func NewTree(tenants []Tenant) *Tree {
	t := &Tree{}
	t.grow(1, tenants, "", 1)
	return t
}

// grow adds an inner node with its tenants, and returns its index.
func (t *Tree) grow(weight float64, tenants []Tenant, above string, part float64) int {
	at := len(t.nodes)
	t.nodes = append(t.nodes, treeNode{weight: weight, leaf: -1})
	all := 0.0
	for i := range tenants {
		all += float64(tenants[i].Weight)
	}
	children := make([]int, len(tenants))
	for i := range tenants {
		x := &tenants[i]
		own, path := part*float64(x.Weight)/all, above+x.Name
		if len(x.Teams) > 0 {
			children[i] = t.grow(float64(x.Weight), x.Teams, path+"/", own)
			continue
		}
		children[i] = len(t.nodes)
		t.nodes = append(t.nodes, treeNode{weight: float64(x.Weight), leaf: len(t.Leaves)})
		t.Leaves = append(t.Leaves, Leaf{Path: path, Tenant: x, Guaranteed: own})
	}
	t.nodes[at].children = children
	return at
}

// MaxMin shares a capacity between leaves by weighted max-min fairness at every
// node of the tree: nobody gets more than it demands, and nobody could be given
// more but at the cost of a sibling that has less for its weight. What siblings
// leave goes to siblings before it goes to cousins. It writes each leaf's part
// to out. It uses scratch space of the tree, so it is not for two goroutines.
func (t *Tree) MaxMin(capacity float64, demands, out []float64) {
	clear(out)
	t.demand(0, demands)
	t.pour(0, capacity, demands, out)
}

// demand fills in what each child of node n wants, and returns the sum.
func (t *Tree) demand(n int, demands []float64) float64 {
	node := &t.nodes[n]
	if node.leaf >= 0 {
		return demands[node.leaf]
	}
	sum := 0.0
	wants := node.wants[:0]
	for _, c := range node.children {
		if amount := t.demand(c, demands); amount > 0 {
			wants = append(wants, want{c, amount, amount / t.nodes[c].weight})
			sum += amount
		}
	}
	node.wants = wants
	return sum
}

// pour gives node n a capacity, to be shared by its children. The ones that
// want least for their weight are filled first; as soon as one cannot be, it
// and all after it get the same for their weight.
func (t *Tree) pour(n int, capacity float64, demands, out []float64) {
	node := &t.nodes[n]
	if node.leaf >= 0 {
		out[node.leaf] = min(capacity, demands[node.leaf])
		return
	}
	slices.SortFunc(node.wants, func(a, b want) int {
		switch {
		case a.level < b.level:
			return -1
		case a.level > b.level:
			return 1
		}
		return a.node - b.node // sums of floats are to be the same every time
	})
	weights := 0.0
	for _, w := range node.wants {
		weights += t.nodes[w.node].weight
	}
	for _, w := range node.wants {
		weight := t.nodes[w.node].weight
		part := min(w.amount, capacity*weight/weights)
		t.pour(w.node, part, demands, out)
		capacity -= part
		weights -= weight
	}
}

// planted is the same tree in a pool.
type planted struct {
	leaves []escrow.NodeID
	claims []federation.Claim // all nodes, parents first
}

func plant(pool gate, tenants []Tenant) planted {
	var p planted
	p.add(pool, tenants, escrow.Root, "", -1)
	return p
}

// add hangs tenants under a node, which is the claim of an index.
func (p *planted) add(pool gate, tenants []Tenant, parent escrow.NodeID, above string, claim int) {
	for i := range tenants {
		x := &tenants[i]
		id := pool.Add(parent, escrow.Node{Weight: x.Weight, Floor: x.FloorTPM, Credit: x.Credit})
		at, leaf := len(p.claims), len(x.Teams) == 0
		p.claims = append(p.claims, federation.Claim{ID: id, Path: above + x.Name, Parent: claim, Weight: x.Weight, Leaf: leaf})
		if leaf {
			p.leaves = append(p.leaves, id)
			continue
		}
		p.add(pool, x.Teams, id, above+x.Name+"/", at)
	}
}
