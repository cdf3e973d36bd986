package governor

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/slots"
)

// The tree of a pool: who has which share, according to the configuration, and the nodes that are left
// of earlier ones because calls still run in it.

// claims are the nodes of a pool's tree. The pool's lock guards them.
type claims struct {
	escrow  *escrow.Pool
	present map[claimName]*claim // of the configuration
	retired []*claim             // of earlier ones, to be removed once nothing is lost by it
	sweep   int                  // index in retired of the next to be looked at

	// If the pool's limits are shared: the tree as other processes are told of it, and how much of each
	// claim counts here, by path.
	tree *poolTree
	ppm  map[string]int64
}

// claim is a node of a pool's tree. The tree of a configuration is
//
//	pool → (group →) tenant → team → …
//
// where a tenant with teams is an inner node, and its own calls are a leaf beside the teams.
type claim struct {
	name claimName
	id   escrow.NodeID
	up   escrow.NodeID
	node escrow.Node
	ppm  int64
	kept bool // the configuration being applied still has it
}

// place is where a claim hangs, and tells it from its siblings.
type place struct {
	claimName
	up escrow.NodeID
}

func (c *claim) place() place { return place{c.name, c.up} }

type claimName struct {
	kind claimKind
	name string
}

type claimKind uint8

const (
	groupClaim claimKind = iota
	tenantClaim
	callsClaim // a tenant's own calls
)

// plant makes the tree that the table describes. Claims that have moved, or that the table
// does not have any more, are retired: their calls finish where they are.
func (c *claims) plant(p *poolView, tb *table) {
	retired := make(map[place]*claim, len(c.retired))
	for _, old := range c.retired {
		retired[old.place()] = old
	}
	for _, v := range tb.inOrder.tenants {
		if v.parent != nil || !v.present(p) {
			continue
		}
		up := escrow.Root
		if v.cfg.Group != "" {
			up = c.put(retired, claimName{groupClaim, v.cfg.Group}, escrow.Root, escrow.Node{Weight: v.cfg.GroupWeight})
		}
		c.plantTenant(retired, p, v, up)
	}
	for name, old := range c.present {
		if !old.kept {
			delete(c.present, name)
			retired[old.place()] = old
		}
		old.kept = false
	}
	c.retired = slices.SortedFunc(maps.Values(retired), func(a, b *claim) int { return cmp.Compare(a.id, b.id) }) // a map has no order
}

func (c *claims) plantTenant(retired map[place]*claim, p *poolView, v *tenantView, up escrow.NodeID) {
	node := escrow.Node{Weight: v.cfg.Weight, Floor: v.cfg.Floor, Credit: v.cfg.Credit, Capped: v.parent == nil, Below: v.cfg.below()}
	if !slices.ContainsFunc(v.teams, func(t *tenantView) bool { return t.present(p) }) {
		c.put(retired, claimName{callsClaim, v.name}, up, node)
		return
	}
	id := c.put(retired, claimName{tenantClaim, v.name}, up, node)
	if v.calls(p) {
		c.put(retired, claimName{callsClaim, v.name}, id, escrow.Node{Weight: escrow.WeightOne, Below: v.cfg.below()})
	}
	for _, team := range v.teams {
		if team.present(p) {
			c.plantTenant(retired, p, team, id)
		}
	}
}

// put hangs a node into the tree. It keeps the node that is there, even if that was retired
// and is not yet gone. A claim that moves begins anew where it moves to.
func (c *claims) put(retired map[place]*claim, name claimName, up escrow.NodeID, node escrow.Node) escrow.NodeID {
	x := c.present[name]
	if x != nil && x.up != up {
		retired[x.place()] = x
		x = nil
	}
	if x == nil {
		x = retired[place{name, up}]
		delete(retired, place{name, up})
	}
	switch {
	case x == nil:
		x = &claim{name: name, id: c.escrow.Add(up, node), up: up, node: node, ppm: wholeClaim}
	case x.node != node:
		c.escrow.Update(x.id, node)
		x.node = node
	}
	x.kept = true
	c.present[name] = x
	return x.id
}

// sweepStride is how many retired nodes are looked at whenever a pool is pumped. There may be
// thousands, each waiting for the end of a long stream.
const sweepStride = 8

// removeRetired removes some of the retired nodes, those by whose removal nothing is lost any more.
func (c *claims) removeRetired(now time.Time) {
	for range min(sweepStride, len(c.retired)) {
		last := len(c.retired) - 1
		c.sweep = min(c.sweep, last)
		if !c.escrow.Remove(now, c.retired[c.sweep].id) {
			c.sweep = (c.sweep + 1) % len(c.retired)
			continue
		}
		c.retired[c.sweep] = c.retired[last]
		c.retired[last] = nil
		c.retired = c.retired[:last]
	}
}

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

// slotNodes are the nodes as the pool's slots know them.
func (t *poolTree) slotNodes() (nodes []slots.Node) {
	for i, c := range t.nodes {
		nodes = append(nodes, slots.Node{
			ID: c.id, Path: t.told[i].Path, Name: c.name.name, Weight: c.node.Weight, Top: c.up == escrow.Root, Leaf: t.told[i].Leaf,
		})
	}
	return nodes
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
