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

// plantLocked makes the tree that the table describes. Claims that have moved, or that the table
// does not have any more, are retired: their calls finish where they are.
func (p *poolView) plantLocked(tb *table) {
	retired := make(map[place]*claim, len(p.retired))
	for _, c := range p.retired {
		retired[c.place()] = c
	}
	for _, v := range tb.inOrder.tenants {
		if v.parent != nil || !v.present(p) {
			continue
		}
		up := escrow.Root
		if v.cfg.Group != "" {
			up = p.claimLocked(retired, claimName{groupClaim, v.cfg.Group}, escrow.Root, escrow.Node{Weight: v.cfg.GroupWeight})
		}
		p.plantTenantLocked(retired, v, up)
	}
	for name, c := range p.claims {
		if !c.kept {
			delete(p.claims, name)
			retired[c.place()] = c
		}
		c.kept = false
	}
	p.retired = slices.SortedFunc(maps.Values(retired), func(a, b *claim) int { return cmp.Compare(a.id, b.id) }) // a map has no order
}

func (p *poolView) plantTenantLocked(retired map[place]*claim, v *tenantView, up escrow.NodeID) {
	node := escrow.Node{Weight: v.cfg.Weight, Floor: v.cfg.Floor, Credit: v.cfg.Credit}
	if !slices.ContainsFunc(v.teams, func(t *tenantView) bool { return t.present(p) }) {
		p.claimLocked(retired, claimName{callsClaim, v.name}, up, node)
		return
	}
	id := p.claimLocked(retired, claimName{tenantClaim, v.name}, up, node)
	if v.calls(p) {
		p.claimLocked(retired, claimName{callsClaim, v.name}, id, escrow.Node{Weight: escrow.WeightOne})
	}
	for _, team := range v.teams {
		if team.present(p) {
			p.plantTenantLocked(retired, team, id)
		}
	}
}

// claimLocked hangs a node into the tree. It keeps the node that is there, even if that was retired
// and is not yet gone. A claim that moves begins anew where it moves to.
func (p *pool) claimLocked(retired map[place]*claim, name claimName, up escrow.NodeID, node escrow.Node) escrow.NodeID {
	c := p.claims[name]
	if c != nil && c.up != up {
		retired[c.place()] = c
		c = nil
	}
	if c == nil {
		c = retired[place{name, up}]
		delete(retired, place{name, up})
	}
	switch {
	case c == nil:
		c = &claim{name: name, id: p.escrow.Add(up, node), up: up, node: node, ppm: wholeClaim}
	case c.node != node:
		p.escrow.Update(c.id, node)
		c.node = node
	}
	c.kept = true
	p.claims[name] = c
	return c.id
}

// sweepStride is how many retired nodes are looked at whenever a pool is pumped. There may be
// thousands, each waiting for the end of a long stream.
const sweepStride = 8

// sweepLocked removes some of the retired nodes, those by whose removal nothing is lost any more.
func (p *pool) sweepLocked(now time.Time) {
	for range min(sweepStride, len(p.retired)) {
		last := len(p.retired) - 1
		p.sweep = min(p.sweep, last)
		if !p.escrow.Remove(now, p.retired[p.sweep].id) {
			p.sweep = (p.sweep + 1) % len(p.retired)
			continue
		}
		p.retired[p.sweep] = p.retired[last]
		p.retired[last] = nil
		p.retired = p.retired[:last]
	}
}
