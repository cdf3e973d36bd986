package escrow

// A soft cap keeps one claimant (Node.Capped) from taking all slots before others come. Up to half of the slots
// are lent to whoever asks. From then on a claimant that runs as many calls as the
// cap begins no more, even if slots stay free: these are for those who come next.
//
// A claimant at its cap stands aside: with the absent among its siblings, so that it neither heads the queue nor
// holds virtual time back, and its floor is not due. It comes back when one of its own calls ends, or when less
// than half of the slots are in use, and then stands where a newcomer would: it cannot catch up on slots that were not for it.
//
// There is no pass for those who have waited long, because nobody starves by a cap: who stands aside is being
// served, by as many calls as the cap, and the slots are used by turns as ever below it.

// wholeSlots is the whole of the slots, in the parts that Config.SoftCap is of.
const wholeSlots = 1_000_000

// capSlots is how many calls of one claimant run at most once half of the slots are in use; 0 is no cap.
func (p *Pool) capSlots() int64 {
	if p.cfg.Slots == 0 || p.cfg.SoftCap == 0 {
		return 0
	}
	return max(1, mulDivFloor(p.slots, p.cfg.SoftCap, wholeSlots))
}

// cappedBy is the node at or above node i that the soft cap keeps from beginning a call, or Root for none.
// O(depth).
func (p *Pool) cappedBy(i NodeID) NodeID {
	most := p.capSlots()
	if most == 0 || 2*(p.running+1) <= p.slots {
		return Root
	}
	for ; i != Root; i = p.nodes[i].parent {
		if nd := &p.nodes[i]; nd.claim.Capped && int64(nd.running) >= most {
			return i
		}
	}
	return Root
}

// Capped reports whether the soft cap keeps a call of a leaf from beginning now.
func (p *Pool) Capped(leaf NodeID) bool { return p.cappedBy(leaf) != Root }

// Full reports whether the limit on calls at once keeps one more call of a leaf from running. It does not if only the
// soft cap does.
func (p *Pool) Full(leaf NodeID, ofBackground bool) bool {
	return !p.HasSlot(leaf, ofBackground) && !(p.HasSlot(Root, false) && p.Capped(leaf))
}

// Aside is how many claimants have calls that wait at their soft cap, as of the last Pump.
func (p *Pool) Aside() int { return len(p.aside) }

// SoftCap reports how many slots the claimant that a leaf belongs to may have once half of them are in use, and how
// many it has. Without a cap both are 0.
func (p *Pool) SoftCap(leaf NodeID) (most, has int64) {
	for i := leaf; i != Root; i = p.nodes[i].parent {
		if nd := &p.nodes[i]; nd.claim.Capped && p.capSlots() > 0 {
			return p.capSlots(), int64(nd.running)
		}
	}
	return 0, 0
}

// letReturn takes back those who stand aside and need not any more. There are few: each ran as many calls as the cap when
// it stepped aside, and that is a part of the slots.
func (p *Pool) letReturn() {
	left := p.aside[:0]
	for _, i := range p.aside {
		switch nd := &p.nodes[i]; {
		case !nd.aside: // it was removed
		case nd.waiting() > 0 && p.cappedBy(i) != Root:
			left = append(left, i)
		default:
			p.comeBack(i)
		}
	}
	p.aside = left
}

// clearAway reports whether the leaf that is next is kept from beginning a call by the soft cap, and has who heads the
// queue for it stand aside: the node at its cap, or, if that does already, the one below it whose floor is due.
func (p *Pool) clearAway(leaf, floored NodeID) bool {
	i := p.cappedBy(leaf)
	if i == Root {
		return false
	}
	if p.nodes[i].aside {
		i = floored
	}
	p.aside = append(p.aside, i)
	p.setAside(i, true)
	return true
}

// comeBack lets a node that stood aside stand where it would if it were new.
func (t *tree) comeBack(i NodeID) {
	t.appear(i)
	for up := t.nodes[i].parent; up != Root && t.nodes[up].able() == 0; up = t.nodes[up].parent {
		t.appear(up)
	}
	t.setAside(i, false)
}

// setAside has a node stand aside, or stand among its siblings again with the tag that it has.
func (t *tree) setAside(i NodeID, aside bool) {
	by := int32(1)
	if aside {
		by = -1
	}
	t.nodes[i].aside = aside
	t.countReady(i, by)
	t.restandUp(i)
}

// countReady adds (by = 1) or takes away (by = -1) the calls below node i to those that are ready above it.
func (t *tree) countReady(i NodeID, by int32) {
	nd := &t.nodes[i]
	for up := nd.parent; ; up = t.nodes[up].parent {
		for class := range nd.ready {
			t.nodes[up].ready[class] += by * nd.ready[class]
		}
		if up == Root || t.nodes[up].aside {
			return
		}
	}
}
