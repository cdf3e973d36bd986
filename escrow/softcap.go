package escrow

import "github.com/llmgov/llmgov/internal/lib/muldiv"

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

// SoftCaps says how the soft cap holds in a pool whose slots are shared with other processes: for all calls of a claimant,
// wherever they run.
type SoftCaps struct {
	// Lent is how many of the slots here are lent to whoever asks.
	Lent int64
	// Most is how many calls each claimant may run here beyond that, and Others how many each may that is not in it.
	Most   map[NodeID]int64
	Others int64
}

// ShareSoftCaps has the soft cap hold as told, and not as a part of the slots that may be used here, until Narrow or
// Configure. Call Pump afterwards.
func (p *Pool) ShareSoftCaps(c *SoftCaps) { p.softCaps = c }

// hasSoftCap reports whether there is a soft cap.
func (p *Pool) hasSoftCap() bool { return p.cfg.Slots > 0 && p.cfg.SoftCap > 0 }

// lent is how many of the slots are lent to whoever asks.
func (p *Pool) lent() int64 {
	if p.softCaps != nil {
		return p.softCaps.Lent
	}
	return p.slots / 2
}

// capSlots is how many calls a claimant may run once no slots are lent any more.
func (p *Pool) capSlots(claimant NodeID) int64 {
	if p.softCaps == nil {
		return CapSlots(p.slots, p.cfg.SoftCap)
	}
	if most, told := p.softCaps.Most[claimant]; told {
		return most
	}
	return p.softCaps.Others
}

// CapSlots is how many of some slots a soft cap (Config.SoftCap) leaves one claimant.
func CapSlots(slots, softCap int64) int64 { return max(1, muldiv.Floor(slots, softCap, wholeSlots)) }

// cappedBy is the node at or above node i that the soft cap keeps from beginning a call, or Root for none.
// O(depth).
func (p *Pool) cappedBy(i NodeID) NodeID {
	if !p.hasSoftCap() || p.running < p.lent() {
		return Root
	}
	for i = p.claimant(i); i != Root; i = p.claimant(p.nodes[i].parent) {
		if int64(p.nodes[i].running) >= p.capSlots(i) {
			return i
		}
	}
	return Root
}

// claimant is the node at or above node i that the soft cap is of (Node.Capped), or Root for none.
func (p *Pool) claimant(i NodeID) NodeID {
	for i != Root && !p.nodes[i].claim.Capped {
		i = p.nodes[i].parent
	}
	return i
}

// Capped reports whether the soft cap keeps a call of a leaf from beginning now.
func (p *Pool) Capped(leaf NodeID) bool { return p.cappedBy(leaf) != Root }

// Full reports whether the limit on calls at once keeps one more call of a leaf from running. It does not if only the
// soft cap does.
func (p *Pool) Full(leaf NodeID, ofBackground bool) bool {
	return !p.HasSlot(leaf, ofBackground) && !(p.HasSlot(Root, false) && p.Capped(leaf))
}

// SoftCap reports the claimant that a leaf belongs to, how many slots it may have here once none are lent any more, and how
// many it has. Without a cap all are 0.
func (p *Pool) SoftCap(leaf NodeID) (claimant NodeID, most, has int64) {
	claimant = p.claimant(leaf)
	if claimant == Root || !p.hasSoftCap() {
		return Root, 0, 0
	}
	return claimant, p.capSlots(claimant), int64(p.nodes[claimant].running)
}

// letReturn takes back those who stand aside and need not any more. They are no more than there are slots: each ran a call when it
// stepped aside.
func (p *Pool) letReturn() {
	left := p.aside[:0]
	for _, i := range p.aside {
		switch nd := &p.nodes[i]; {
		case !nd.aside: // it was removed
		case nd.waiting() > 0 && (p.cappedBy(i) != Root || p.WaitsRestricted(i)):
			left = append(left, i)
			p.wakeAt(p.liftsAt(i))
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
	p.stepAside(i)
	return true
}

// stepAside has a node stand aside until letReturn finds that it need not any more.
func (p *Pool) stepAside(i NodeID) {
	p.wakeAt(p.liftsAt(i))
	p.aside = append(p.aside, i)
	p.setAside(i, true)
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
		t.countBands(i, by)
	}
	t.nodes[i].aside = aside
	if !aside {
		t.countBands(i, by)
	}
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
