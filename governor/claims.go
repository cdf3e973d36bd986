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
	round   int                  // of plans; for Apply alone

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
	// round is that of the last plan that keeps it as it is; for Apply alone.
	round int
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

// plan is how a pool's tree and seats differ from what a table wants. It is made without the pool's lock, because tables may have very many
// tenants: only an Apply changes what it reads.
type plan struct {
	burst time.Duration
	nodes []*wish // to be made, moved or changed; parents first
	gone  []*claim
	seats []*tenantView // who needs a seat, or another one
	left  []*seat
}

// wish is a node that is to be made, moved or changed.
type wish struct {
	name  claimName
	above bough
	node  escrow.Node
	id    escrow.NodeID // once it is there
}

// bough is a node that is there or, if new is not nil, will be.
type bough struct {
	id  escrow.NodeID
	new *wish
}

func (b bough) node() escrow.NodeID {
	if b.new != nil {
		return b.new.id
	}
	return b.id
}

// plan compares the tree that the table describes with the one that is there.
func (p *poolView) plan(tb *table) *plan {
	pl := &plan{burst: tb.burst(p)}
	p.claims.round++
	for _, v := range tb.inOrder.tenants {
		if v.parent != nil || !v.present(p) {
			continue
		}
		up := bough{id: escrow.Root}
		if v.cfg.Group != "" {
			up = p.claims.want(pl, claimName{groupClaim, v.cfg.Group}, up, escrow.Node{Weight: v.cfg.GroupWeight})
		}
		p.planTenant(pl, v, up)
	}
	for _, c := range p.claims.present {
		if c.round != p.claims.round {
			pl.gone = append(pl.gone, c)
		}
	}
	for _, st := range p.seats {
		if st.round != p.claims.round {
			pl.left = append(pl.left, st)
		}
	}
	slices.SortFunc(pl.left, func(a, b *seat) int { return cmp.Compare(a.leaf, b.leaf) }) // a map has no order
	return pl
}

func (p *poolView) planTenant(pl *plan, v *tenantView, up bough) {
	node := escrow.Node{Weight: v.cfg.Weight, Floor: v.cfg.Floor, Credit: v.cfg.Credit, Capped: v.parent == nil, Below: v.cfg.below()}
	if !slices.ContainsFunc(v.teams, func(t *tenantView) bool { return t.present(p) }) {
		p.planSeat(pl, v, p.claims.want(pl, claimName{callsClaim, v.name}, up, node))
		return
	}
	inner := p.claims.want(pl, claimName{tenantClaim, v.name}, up, node)
	if v.calls(p) {
		p.planSeat(pl, v, p.claims.want(pl, claimName{callsClaim, v.name}, inner, escrow.Node{Weight: 1, Below: v.cfg.below()}))
	}
	for _, team := range v.teams {
		if team.present(p) {
			p.planTenant(pl, team, inner)
		}
	}
}

// planSeat keeps the seat of a tenant whose leaf stays.
func (p *poolView) planSeat(pl *plan, v *tenantView, leaf bough) {
	st := p.seats[v.tenant]
	if st == nil || leaf.new != nil || st.leaf != leaf.id {
		pl.seats = append(pl.seats, v)
		return
	}
	st.round = p.claims.round
	v.access[p.index].seat = st
}

// want plans a node, unless it is there as it should be.
func (c *claims) want(pl *plan, name claimName, up bough, node escrow.Node) bough {
	x := c.present[name]
	stays := x != nil && up.new == nil && x.up == up.id
	if stays {
		x.round = c.round
		if x.node == node {
			return bough{id: x.id}
		}
	}
	w := &wish{name: name, above: up, node: node}
	pl.nodes = append(pl.nodes, w)
	if stays {
		return bough{id: x.id}
	}
	return bough{new: w}
}

// plant makes the tree that was planned. Claims that have moved, or that the table
// does not have any more, are retired: their calls finish where they are.
func (c *claims) plant(pl *plan) {
	if len(pl.nodes)+len(pl.gone) == 0 {
		return
	}
	retired := make(map[place]*claim, len(c.retired))
	for _, old := range c.retired {
		retired[old.place()] = old
	}
	for _, w := range pl.nodes {
		w.id = c.put(retired, w.name, w.above.node(), w.node)
	}
	for _, old := range pl.gone {
		if c.present[old.name] == old {
			delete(c.present, old.name)
			retired[old.place()] = old
		}
	}
	c.retired = slices.SortedFunc(maps.Values(retired), func(a, b *claim) int { return cmp.Compare(a.id, b.id) }) // a map has no order
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
