package simulate

import (
	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/fairness"
	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
)

// Leaf is a tenant with a load: a place where requests are offered.
type Leaf struct {
	// Path is the tenant's name after those of its parents: "org/team".
	Path string
	*scenario.Tenant
	// Guaranteed is the part of the pool that the leaf has when everybody is busy.
	Guaranteed float64
}

// Tree is the claims on a pool, for the oracles.
type Tree struct {
	*fairness.Tree
	Leaves []Leaf
}

// NewTree is the tree of a scenario's tenants.
func NewTree(tenants []scenario.Tenant) *Tree {
	t := &Tree{Tree: fairness.NewTree()}
	t.grow(fairness.Root, tenants, "")
	guaranteed := make([]float64, len(t.Leaves))
	t.Guaranteed(guaranteed)
	for i := range t.Leaves {
		t.Leaves[i].Guaranteed = guaranteed[i]
	}
	return t
}

// grow adds tenants below a node.
func (t *Tree) grow(parent int, tenants []scenario.Tenant, above string) {
	for i := range tenants {
		x := &tenants[i]
		path := above + x.Name
		if len(x.Teams) > 0 {
			t.grow(t.Inner(parent, float64(x.Weight.Thousandths())), x.Teams, path+"/")
			continue
		}
		t.Leaf(parent, float64(x.Weight.Thousandths()))
		t.Leaves = append(t.Leaves, Leaf{Path: path, Tenant: x})
	}
}

// planted is the same tree in a pool.
type planted struct {
	leaves []escrow.NodeID
	claims []federation.Claim // all nodes, parents first
}

func plant(pool gate, tenants []scenario.Tenant) planted {
	var p planted
	p.add(pool, tenants, escrow.Root, "", -1)
	return p
}

// add hangs tenants under a node, which is the claim of an index.
func (p *planted) add(pool gate, tenants []scenario.Tenant, parent escrow.NodeID, above string, claim int) {
	for i := range tenants {
		x := &tenants[i]
		id := pool.Add(parent, escrow.Node{
			Weight: x.Weight, Floor: x.FloorTPM, Credit: x.Credit, Capped: parent == escrow.Root, Below: x.Below,
		})
		at := len(p.claims)
		leaf := len(x.Teams) == 0
		p.claims = append(p.claims, federation.Claim{ID: id, Path: above + x.Name, Parent: claim, Weight: x.Weight, Leaf: leaf})
		if leaf {
			p.leaves = append(p.leaves, id)
			continue
		}
		p.add(pool, x.Teams, id, above+x.Name+"/", at)
	}
}
