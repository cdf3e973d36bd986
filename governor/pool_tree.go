package governor

import (
	"cmp"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/escrow"
)

// PoolNode is one node of a pool's tree, as other processes are told of it.
//
// Other processes know a node by a path of names, because each process numbers its nodes in its own
// way: acme/search; (free)/acme/search in a tier that is a node; and acme/(calls) for acme's own
// calls, beside its teams.
type PoolNode struct {
	ID     escrow.NodeID
	Path   string
	Parent int // index in the tree, or -1
	Weight escrow.Weight
	Leaf   bool
}

// poolTree is a shared pool's tree as the configuration has it. It is immutable.
type poolTree struct {
	told   []PoolNode // parents first
	nodes  []*claim   // in the same order
	leaves []escrow.NodeID
	paths  map[escrow.NodeID]string
	index  map[string]int // by path
}

const ownCalls = "(calls)"

// newPoolTree makes the tree of the claims in force.
func newPoolTree(claims map[claimName]*claim) *poolTree {
	t := &poolTree{paths: make(map[escrow.NodeID]string, len(claims)), index: make(map[string]int, len(claims))}
	below := map[escrow.NodeID][]*claim{}
	for _, c := range claims {
		below[c.up] = append(below[c.up], c)
	}
	t.list(below, escrow.Root, "", -1)
	return t
}

func (t *poolTree) list(below map[escrow.NodeID][]*claim, up escrow.NodeID, path string, parent int) {
	kids := below[up]
	slices.SortFunc(kids, func(a, b *claim) int {
		return cmp.Or(cmp.Compare(a.name.kind, b.name.kind), cmp.Compare(a.name.name, b.name.name))
	})
	for _, c := range kids {
		at := len(t.told)
		full := path + c.label(parent >= 0 && t.nodes[parent].name.kind == tenantClaim && t.nodes[parent].name.name == c.name.name)
		leaf := c.name.kind == callsClaim
		t.told = append(t.told, PoolNode{ID: c.id, Path: full, Parent: parent, Weight: c.node.Weight, Leaf: leaf})
		t.nodes = append(t.nodes, c)
		t.paths[c.id] = full
		t.index[full] = at
		if leaf {
			t.leaves = append(t.leaves, c.id)
		}
		t.list(below, c.id, full+"/", at)
	}
}

// label is a claim's name among its siblings. own says that these are its parent's own calls.
func (c *claim) label(own bool) string {
	switch {
	case c.name.kind == groupClaim:
		return "(" + c.name.name + ")"
	case own:
		return ownCalls
	}
	return c.name.name[strings.LastIndexByte(c.name.name, '/')+1:]
}

// share sets how much of the claim at a path counts here, and reports whether that is news. It is kept
// for claims that come to the path later.
func (c *claims) share(path string, ppm int64) bool {
	if path == "" {
		return false
	}
	if c.ppm == nil {
		c.ppm = map[string]int64{}
	}
	c.ppm[path] = ppm
	i, there := c.tree.index[path]
	if !there || c.tree.nodes[i].ppm == ppm {
		return false
	}
	c.tree.nodes[i].ppm = ppm
	c.escrow.Share(c.tree.nodes[i].id, ppm)
	return true
}

// list makes the tree anew from the configuration, and gives nodes that are new or have moved the shares
// of their paths.
func (c *claims) list() {
	c.tree = newPoolTree(c.present)
	for path := range c.ppm {
		if _, ok := c.tree.index[path]; !ok {
			delete(c.ppm, path)
		}
	}
	for i, x := range c.tree.nodes {
		ppm, ok := c.ppm[c.tree.told[i].Path]
		if !ok {
			ppm = wholeClaim
		}
		if x.ppm != ppm {
			x.ppm = ppm
			c.escrow.Share(x.id, ppm)
		}
	}
}

// wholeClaim is the share, in millionths, of a claim all of whose demand comes to this process.
const wholeClaim = 1_000_000
