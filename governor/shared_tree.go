package governor

import (
	"cmp"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/federation"
)

// claimTree is a shared pool's tree as the configuration has it, in the form in which other
// processes are told of it. It is immutable.
//
// Nodes are told by paths of names, since each process numbers them in its own way: acme/search;
// (free)/acme/search in a tier that is a node; and acme/(calls) for acme's own calls, beside its
// teams.
type claimTree struct {
	claims []federation.Claim // parents first; Demand is not filled in
	nodes  []*claim           // in the same order
	leaves []escrow.NodeID
	paths  map[escrow.NodeID]string
	index  map[string]int // by path
}

const ownCalls = "(calls)"

// newClaimTree makes the tree of the claims in force.
func newClaimTree(claims map[claimName]*claim) *claimTree {
	t := &claimTree{paths: make(map[escrow.NodeID]string, len(claims)), index: make(map[string]int, len(claims))}
	below := map[escrow.NodeID][]*claim{}
	for _, c := range claims {
		below[c.up] = append(below[c.up], c)
	}
	t.list(below, escrow.Root, "", -1)
	return t
}

func (t *claimTree) list(below map[escrow.NodeID][]*claim, up escrow.NodeID, path string, parent int) {
	kids := below[up]
	slices.SortFunc(kids, func(a, b *claim) int {
		return cmp.Or(cmp.Compare(a.name.kind, b.name.kind), cmp.Compare(a.name.name, b.name.name))
	})
	for _, c := range kids {
		at := len(t.claims)
		full := path + c.label(parent >= 0 && t.nodes[parent].name.kind == tenantClaim && t.nodes[parent].name.name == c.name.name)
		leaf := c.name.kind == callsClaim
		t.claims = append(t.claims, federation.Claim{ID: c.id, Path: full, Parent: parent, Weight: c.node.Weight, Leaf: leaf})
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

// with returns the tree's claims with the demands of its leaves filled in.
func (t *claimTree) with(leaves []escrow.Demand) []federation.Claim {
	out := slices.Clone(t.claims)
	i := 0
	for at := range out {
		if out[at].Leaf {
			out[at].Demand = leaves[i]
			i++
		}
	}
	return out
}

// shareLocked sets how much of the claim at a path counts here. It is kept for claims that come to
// the path later.
func (p *pool) shareLocked(path string, ppm int64) {
	if path == "" {
		return
	}
	if p.ppm == nil {
		p.ppm = map[string]int64{}
	}
	p.ppm[path] = ppm
	if i, ok := p.tree.index[path]; ok && p.tree.nodes[i].ppm != ppm {
		p.tree.nodes[i].ppm = ppm
		p.escrow.Share(p.tree.nodes[i].id, ppm)
		p.reshared = true
	}
}

// listLocked makes the tree anew from the configuration, and gives nodes that are new or have moved
// the shares of their paths.
func (p *pool) listLocked() {
	p.tree = newClaimTree(p.claims)
	for path := range p.ppm {
		if _, ok := p.tree.index[path]; !ok {
			delete(p.ppm, path)
		}
	}
	for i, c := range p.tree.nodes {
		ppm, ok := p.ppm[p.tree.claims[i].Path]
		if !ok {
			ppm = wholeClaim
		}
		if c.ppm != ppm {
			c.ppm = ppm
			p.escrow.Share(c.id, ppm)
		}
	}
}

// wholeClaim is the share, in millionths, of a claim all of whose demand comes to this process.
const wholeClaim = 1_000_000
