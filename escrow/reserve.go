package escrow

import "github.com/llmgov/llmgov/internal/lib/muldiv"

// Background calls may take only some of a pool's slots, so that interactive calls find the rest free. Two
// rules say which:
//
//   - No more background calls run than BackgroundSlots.Most, whoever waits.
//   - Of the slots that nobody else uses they leave BackgroundSlots.Free free: these are for bursts of
//     interactive calls. But a tenant whose interactive calls never end would keep all others' background
//     calls out for good. So the second rule does not hold while interactive calls wait, because then turns
//     decide, nor for a tenant that runs fewer calls than its weight makes of those that run.

// BackgroundSlots bounds what background calls take of the slots that may be used.
type BackgroundSlots struct {
	// Most is how many background calls may run.
	Most int64
	// Free is how many slots they leave free, except for a tenant that has less than its share.
	Free int64
	// Soon is how many background calls may run soon, if Most is fewer only until other processes give up theirs.
	Soon int64
}

// backgroundSlots are those of a configuration.
func (c *Config) backgroundSlots() BackgroundSlots {
	return BackgroundSlots{Most: c.Slots - c.InteractiveReserve, Free: c.InteractiveReserve}
}

// hasSlot reports whether a call of leaf i may occupy one more slot. For Root it is the first background
// call in line; if there is one, background calls are open then: see tree.open.
func (p *Pool) hasSlot(i NodeID, class rank) bool {
	switch {
	case p.cfg.Slots == 0:
		return true
	case p.running >= p.slots || p.Capped(i):
		return false
	case class == interactive:
		return true
	case p.background >= p.forBackground.Most:
		return false
	}
	return p.running < p.slots-p.forBackground.Free || p.nodes[Root].ready[interactive] > 0 || p.owed(i)
}

// owed reports whether a leaf has less than its share of the slots in use: if the leaf, or a node above it,
// runs fewer calls by weight than its siblings and it do on average. O(depth).
func (p *Pool) owed(i NodeID) bool {
	for p.nodes[i].inner != nil {
		second, ok := p.firstBelow(i, background)
		if !ok {
			return false
		}
		i = NodeID(second.id)
	}
	for ; i != Root; i = p.nodes[i].parent {
		nd := &p.nodes[i]
		if nd.parent == Root && p.elsewhere != nil {
			return p.elsewhere.owes(i, nd.claim.Weight, int64(nd.running)+p.elsewhere.Running[i], p.running)
		}
		up := &p.nodes[nd.parent]
		all := int64(up.running)
		if nd.parent == Root {
			all = p.running
		}
		if muldiv.Floor(int64(nd.running), int64(up.busy), int64(nd.weight)) < all {
			return true
		}
	}
	return false
}

// park notes that background calls are kept waiting, if they are not open, and for slots that are reserved: those that other processes
// are about to give up are not.
func (p *Pool) park(open bool) {
	soon := p.background >= p.forBackground.Most && p.background < p.forBackground.Soon
	if !open && !soon {
		p.parks = true
	}
}

// reserved reports whether the interactive reserve is what keeps background calls of a leaf waiting, and
// not the turns of others. Where nothing is reserved it is not.
func (p *Pool) reserved(i NodeID) bool {
	if p.cfg.Slots == 0 {
		return false
	}
	return p.forBackground.Most < p.slots && p.background >= p.forBackground.Most || p.running < p.slots && !p.hasSlot(i, background)
}
