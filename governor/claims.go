package governor

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// The tree of a pool: who has a share of what, according to the configuration, and what is left
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
	node := escrow.Node{Weight: v.cfg.Weight, Floor: v.cfg.Floor, Credit: v.cfg.Credit}
	if !slices.ContainsFunc(v.teams, func(t *tenantView) bool { return t.present(p) }) {
		c.put(retired, claimName{callsClaim, v.name}, up, node)
		return
	}
	id := c.put(retired, claimName{tenantClaim, v.name}, up, node)
	if v.calls(p) {
		c.put(retired, claimName{callsClaim, v.name}, id, escrow.Node{Weight: escrow.WeightOne})
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
