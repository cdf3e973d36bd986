package simulate

import (
	"github.com/llmgov/llmgov/escrow/fairness"
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
