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

// tree is a pool's tree.
type tree struct {
	escrow  *escrow.Pool
	present map[nodeName]*node // of the configuration
	retired []*node            // of earlier ones, to be removed once nothing is lost by it
	sweep   int                // index in retired of the next to be looked at
	round   int                // of plans; for Apply alone

	// If the pool's limits are shared: the tree as other processes are told of it, and how much of each
	// node counts here, by path.
	shared *poolTree
	ppm    map[string]int64
}

// node is a node of a pool's tree. The tree of a configuration is
//
//	pool → (group →) tenant → team → …
//
// where a tenant with teams is an inner node, and its own calls are a leaf beside the teams. Below the leaf of a tenant with members hang theirs,
// of which the tree knows nothing.
type node struct {
	name nodeName
	id   escrow.NodeID
	up   escrow.NodeID
	cfg  escrow.Node
	ppm  int64
	seat *seat // of a leaf of the configuration
	// round is that of the last plan that keeps it as it is; for Apply alone.
	round int
}

// position is where a node hangs, and tells it from its siblings.
type position struct {
	nodeName
	up escrow.NodeID
}

func (n *node) position() position { return position{n.name, n.up} }

type nodeName struct {
	kind nodeKind
	name string
}

type nodeKind uint8

const (
	groupNode nodeKind = iota
	tenantNode
	callsNode  // a tenant's own calls
	rosterNode // those of a tenant with members
	memberNode // one member's, which no tree of a configuration has
)

// plan is how a pool's tree and seats differ from what a table wants. It is made without the lock, because tables may have very many
// tenants: only an Apply changes what it reads.
type plan struct {
	burst time.Duration
	nodes []*wish // to be made, moved or changed; parents first
	more  int     // of nodes, that are to be made or moved
	gone  []*node
	seats []*tenantView // who needs a seat, or another one
	left  []*seat
}

// changes reports whether anything of the tree or its seats is to be changed.
func (pl *plan) changes() bool { return len(pl.nodes)+len(pl.gone)+len(pl.seats)+len(pl.left) > 0 }

// wish is a node that is to be made, moved or changed.
type wish struct {
	name  nodeName
	was   *node // the node that has the name; nil if none has
	above nodeRef
	cfg   escrow.Node
	id    escrow.NodeID // once it is there
}

// nodeRef is a node that is there or, if new is not nil, will be.
type nodeRef struct {
	id  escrow.NodeID
	new *wish
}

func (r nodeRef) node() escrow.NodeID {
	if r.new != nil {
		return r.new.id
	}
	return r.id
}

// plan compares the tree that the table describes with the one that is there.
func (p *poolView) plan(tb *table) *plan {
	pl := &plan{burst: tb.burst(p)}
	p.tree.round++
	groups := map[string]nodeRef{}
	for _, v := range tb.inOrder.tenants {
		if v.parent != nil || !v.present(p) {
			continue
		}
		up := nodeRef{id: escrow.Root}
		if name := v.cfg.Group; name != "" {
			if _, planned := groups[name]; !planned {
				groups[name] = p.tree.want(pl, nodeName{groupNode, name}, up, escrow.Node{Weight: v.cfg.GroupWeight})
			}
			up = groups[name]
		}
		p.planTenant(pl, v, up)
	}
	for _, c := range p.tree.present {
		if c.round != p.tree.round {
			pl.gone = append(pl.gone, c)
		}
	}
	for _, st := range p.seats {
		if st.round != p.tree.round {
			pl.left = append(pl.left, st)
		}
	}
	slices.SortFunc(pl.left, func(a, b *seat) int { return cmp.Compare(a.leaf, b.leaf) }) // a map has no order
	return pl
}

func (p *poolView) planTenant(pl *plan, v *tenantView, up nodeRef) {
	node := escrow.Node{Weight: v.cfg.Weight, Floor: v.cfg.Floor, Credit: v.cfg.Credit, Capped: v.parent == nil, Below: v.cfg.Bands()}
	if !slices.ContainsFunc(v.teams, func(t *tenantView) bool { return t.present(p) }) {
		p.planSeat(pl, v, p.tree.want(pl, v.leafName(), up, node))
		return
	}
	inner := p.tree.want(pl, nodeName{tenantNode, v.name}, up, node)
	if v.calls(p) {
		p.planSeat(pl, v, p.tree.want(pl, v.leafName(), inner, escrow.Node{Weight: 1, Below: v.cfg.Bands()}))
	}
	for _, team := range v.teams {
		if team.present(p) {
			p.planTenant(pl, team, inner)
		}
	}
}

// leafName is the node of the tenant's own calls.
func (v *tenantView) leafName() nodeName {
	if v.cfg.Members != nil {
		return nodeName{rosterNode, v.name}
	}
	return nodeName{callsNode, v.name}
}

// planSeat keeps the seat of a tenant whose leaf stays.
func (p *poolView) planSeat(pl *plan, v *tenantView, leaf nodeRef) {
	st := p.seats[v.tenant]
	if st == nil || leaf.new != nil || st.leaf != leaf.id {
		pl.seats = append(pl.seats, v)
		return
	}
	st.round = p.tree.round
	v.access[p.index].seat = st
}

// want plans a node, unless it is there as it should be.
func (t *tree) want(pl *plan, name nodeName, up nodeRef, cfg escrow.Node) nodeRef {
	x := t.present[name]
	stays := x != nil && up.new == nil && x.up == up.id
	if stays {
		x.round = t.round
		if x.cfg == cfg {
			return nodeRef{id: x.id}
		}
	}
	w := &wish{name: name, was: x, above: up, cfg: cfg}
	pl.nodes = append(pl.nodes, w)
	if stays {
		return nodeRef{id: x.id}
	}
	pl.more++
	return nodeRef{new: w}
}

// plant makes the tree that was planned. Nodes that have moved, or that the table
// does not have any more, are retired: their calls finish where they are.
func (t *tree) plant(pl *plan) {
	if len(pl.nodes)+len(pl.gone) == 0 {
		return
	}
	t.escrow.Grow(pl.more)
	retired := make(map[position]*node, len(t.retired))
	for _, old := range t.retired {
		retired[old.position()] = old
	}
	for _, w := range pl.nodes {
		t.put(retired, w)
	}
	for _, old := range pl.gone {
		if t.present[old.name] == old {
			delete(t.present, old.name)
			retired[old.position()] = old
		}
	}
	t.retired = slices.SortedFunc(maps.Values(retired), func(a, b *node) int { return cmp.Compare(a.id, b.id) }) // a map has no order
}

// put hangs a node into the tree. It keeps the node that is there, even if that was retired
// and is not yet gone. A node that moves begins anew where it moves to.
func (t *tree) put(retired map[position]*node, w *wish) {
	up := w.above.node()
	x := w.was
	if x != nil && x.up != up {
		retired[x.position()] = x
		x = nil
	}
	if x == nil {
		x = retired[position{w.name, up}]
		delete(retired, position{w.name, up})
	}
	switch {
	case x == nil:
		x = &node{name: w.name, id: t.escrow.Add(up, w.cfg), up: up, cfg: w.cfg, ppm: wholeNode}
	case x.cfg != w.cfg:
		t.escrow.Update(x.id, w.cfg)
		x.cfg = w.cfg
	}
	t.present[w.name] = x
	w.id = x.id
}

// sweepStride is how many retired nodes are looked at whenever a pool is pumped. There may be
// thousands, each waiting for the end of a long stream.
const sweepStride = 8

// removeRetired removes some of the retired nodes, those by whose removal nothing is lost any more.
func (t *tree) removeRetired(now time.Time) {
	for range min(sweepStride, len(t.retired)) {
		last := len(t.retired) - 1
		t.sweep = min(t.sweep, last)
		if !t.escrow.Remove(now, t.retired[t.sweep].id) {
			t.sweep = (t.sweep + 1) % len(t.retired)
			continue
		}
		t.retired[t.sweep] = t.retired[last]
		t.retired[last] = nil
		t.retired = t.retired[:last]
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
	nodes  []*node    // in the same order
	leaves []escrow.NodeID
	paths  map[escrow.NodeID]string
	index  map[string]int // by path
}

const ownCalls = "(calls)"

// newPoolTree makes the tree of the nodes in force.
func newPoolTree(nodes map[nodeName]*node) *poolTree {
	t := &poolTree{paths: make(map[escrow.NodeID]string, len(nodes)), index: make(map[string]int, len(nodes))}
	below := map[escrow.NodeID][]*node{}
	for _, c := range nodes {
		below[c.up] = append(below[c.up], c)
	}
	t.list(below, escrow.Root, "", -1)
	return t
}

func (t *poolTree) list(below map[escrow.NodeID][]*node, up escrow.NodeID, path string, parent int) {
	kids := below[up]
	slices.SortFunc(kids, func(a, b *node) int {
		return cmp.Or(cmp.Compare(a.name.kind, b.name.kind), cmp.Compare(a.name.name, b.name.name))
	})
	for _, c := range kids {
		at := len(t.told)
		full := path + c.label(parent >= 0 && t.nodes[parent].name.kind == tenantNode && t.nodes[parent].name.name == c.name.name)
		leaf := c.name.kind >= callsNode
		t.told = append(t.told, PoolNode{ID: c.id, Path: full, Parent: parent, Weight: c.cfg.Weight, Leaf: leaf})
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
			ID: c.id, Path: t.told[i].Path, Name: c.name.name, Weight: c.cfg.Weight, Top: c.up == escrow.Root, Leaf: t.told[i].Leaf,
		})
	}
	return nodes
}

// label is a node's name among its siblings. own says that these are its parent's own calls.
func (n *node) label(own bool) string {
	switch {
	case n.name.kind == groupNode:
		return "(" + n.name.name + ")"
	case own:
		return ownCalls
	}
	return n.name.name[strings.LastIndexByte(n.name.name, '/')+1:]
}

// share sets how much of the node at a path counts here, and reports whether that is news. It is kept
// for nodes that come to the path later.
func (t *tree) share(path string, ppm int64) bool {
	if path == "" {
		return false
	}
	if t.ppm == nil {
		t.ppm = map[string]int64{}
	}
	t.ppm[path] = ppm
	i, there := t.shared.index[path]
	if !there || t.shared.nodes[i].ppm == ppm {
		return false
	}
	t.shared.nodes[i].ppm = ppm
	t.escrow.Share(t.shared.nodes[i].id, ppm)
	return true
}

// list makes the tree anew from the configuration, and gives nodes that are new or have moved the shares
// of their paths.
func (t *tree) list() {
	t.shared = newPoolTree(t.present)
	for path := range t.ppm {
		if _, ok := t.shared.index[path]; !ok {
			delete(t.ppm, path)
		}
	}
	for i, x := range t.shared.nodes {
		ppm, ok := t.ppm[t.shared.told[i].Path]
		if !ok {
			ppm = wholeNode
		}
		if x.ppm != ppm {
			x.ppm = ppm
			t.escrow.Share(x.id, ppm)
		}
	}
}

// wholeNode is the share, in millionths, of a node all of whose demand comes to this process.
const wholeNode = 1_000_000
