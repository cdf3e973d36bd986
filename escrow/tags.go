package escrow

import (
	"time"

	"github.com/llmgov/llmgov/internal/lib/muldiv"
)

// virtualOf is an inner node's virtual time. Once all was idle, whoever was ahead
// owes nobody anything any more: it is past every tag then.
func (t *tree) virtualOf(p *inner) int64 {
	if p.idle != t.idles {
		return max(p.virtual, p.latest)
	}
	return p.virtual
}

// startTag is the tag that node i would have if something came to it now, while nothing waits below
// it: virtual time, or earlier by the service that it has to catch up on, which is the larger of:
//   - the lead: those who were served while the pool ran ahead of a fluid server have taken it
//     together, and a node that comes back only now starts earlier by its part of it. It is divided
//     level by level, in proportion to the service there, and in the virtual costs that moved tags. That is
//     less than the paced amount if not everything counts in shares.
//   - its credit.
//
// It is never before the node's own finish tag, so that neither can be exploited.
func (t *tree) startTag(i NodeID) int64 {
	nd := &t.nodes[i]
	p := t.nodes[nd.parent].inner
	back := int64(0)
	if root := t.nodes[Root].inner; t.lead > 0 && nd.epoch != t.epoch && p.epoch == t.epoch && p.leading > 0 {
		lead := muldiv.Ceil(t.lead, p.through, max(1, root.paced))
		back = muldiv.Ceil(lead, weightOne, p.leading)
	}
	if nd.credit > 0 {
		credit := muldiv.Ceil(int64(nd.credit/time.Microsecond), tagUnit, windowMicros)
		back = max(back, muldiv.Ceil(credit, weightOne, p.weights))
	}
	return max(t.fluid(nd.parent, nd.via)-back, nd.finish)
}

// meanEvery is how long a mean is valid, in µs of the pool.
const meanEvery = 50_000

// fluid is where the fluid system stands below an inner node: where children that return start. If
// some children are absent, with only their places kept, virtual time follows those that are
// present and have had more than the others; the mean does not.
func (t *tree) fluid(i NodeID, via Mask) int64 {
	p := t.nodes[i].inner
	v := t.levelOf(p, via, t.virtualOf(p))
	if t.nodes[i].promised == 0 {
		return v
	}
	if t.now-p.meanAt < meanEvery && p.meanAt != 0 {
		return min(p.mean, v)
	}
	mean := v + t.meanOf(p, v)
	if !t.looking { // who only looks must not change the next decision
		p.mean = mean
		p.meanAt = t.now
	}
	return min(mean, v)
}

// meanOf is the mean, by weight, of the tags at which the backlogs below the children
// begin, relative to a tag. O(children): fluid asks for it at most once in meanEvery.
func (t *tree) meanOf(p *inner, tag int64) int64 {
	weights := int64(0)
	mean := int64(0)
	for _, h := range p.lanes.each() {
		for _, x := range h {
			weights += t.nodes[x.id].weight
		}
	}
	for _, h := range p.lanes.each() {
		for _, x := range h {
			nd := &t.nodes[x.id]
			mean += signedMulDiv(nd.finish-nd.redeemable()-tag, nd.weight, weights)
		}
	}
	return mean
}

// keptTag is the tag at which the backlog below node i begins: its calls, and
// the places that are kept for it.
func (t *tree) keptTag(i NodeID) int64 {
	if nd := &t.nodes[i]; nd.standing() != none {
		return nd.finish - min(nd.redeemable(), nd.over(nd.promised-nd.doubted))
	}
	return t.startTag(i)
}

// redeemable is how far the node's tag goes back when all that is kept places below
// it comes back: as far as it was moved past them, but no more than they cost.
func (n *node) redeemable() int64 {
	if n.promised == 0 {
		return 0
	}
	return min(n.passed, n.over(n.promised))
}

// arrive gives leaf i, and all above it that nothing waits below, their tags, as
// a call or a kept place comes to it. The distance that a node with kept places is moved is
// noted in passed, to be given back by redeem. The caller restands them.
func (t *tree) arrive(i NodeID, via Mask) {
	for ; i != Root; i = t.nodes[i].parent {
		nd := &t.nodes[i]
		if nd.able() > 0 {
			if via&^nd.via == 0 {
				return // nor is it news to those above
			}
			nd.via |= via
			continue
		}
		nd.via = via
		t.appear(i)
	}
}

// appear gives node i its tag as calls below it can be served again.
func (t *tree) appear(i NodeID) {
	nd := &t.nodes[i]
	start := t.startTag(i)
	if nd.promised > 0 {
		nd.passed += start - nd.finish
	}
	nd.finish = start
	nd.due = max(nd.due, t.now)
	if t.open {
		nd.opening = t.openings
	}
}

// charge moves leaf i and all above it past a call of virtual cost c that starts
// now, and virtual time to where it was taken from. paced is the cost of the call in
// the books (Pool.paces). open says whether background
// calls were in the running for it. The caller restands them.
func (t *tree) charge(i NodeID, upstream int, c, paced int64, open bool) {
	for i != Root {
		nd := &t.nodes[i]
		p := t.nodes[nd.parent].inner
		if p.idle != t.idles {
			p.levels = p.levels[:0]
		}
		p.virtual = max(t.virtualOf(p), t.virtualAfter(nd.parent, nd.finish, open))
		p.idle = t.idles
		if nd.via != 0 {
			p.serve(t.now, upstream, nd.finish)
		}
		if p.epoch != t.epoch {
			p.epoch = t.epoch
			p.through = 0
			p.paced = 0
			p.leading = 0
		}
		p.through += c
		p.paced += paced
		if nd.epoch != t.epoch {
			nd.epoch = t.epoch
			p.leading += nd.weight
		}
		t.move(i, c)
		if nd.running == 0 {
			p.busy += nd.weight
		}
		nd.running++
		if p.virtual > rebaseAt {
			t.rebase(nd.parent)
		}
		i = nd.parent
	}
}

// virtualAfter is the virtual time when a child of that tag is served: its
// tag, or that of those whom its floor let it pass. (Else a node far
// ahead of its share by its floor would carry virtual time away from its siblings,
// and who returns would wait until they have caught up.)
func (t *tree) virtualAfter(i NodeID, tag int64, open bool) int64 {
	for r := range rank(classes) {
		if first, ok := t.firstBelow(i, r); ok && (open || r == interactive) {
			tag = min(tag, first.key)
		}
	}
	return tag
}

// correct moves the tags of leaf i and all above it by d, the virtual cost that
// a running call takes beyond its charge, and restands them. A refund is not clipped at
// virtual time: that would cost heavy-tailed tenants a part of their share, and
// it cannot exceed the charge of the call.
func (t *tree) correct(i NodeID, d int64) {
	for ; i != Root; i = t.nodes[i].parent {
		t.move(i, d)
		t.restand(i)
	}
}

// ended takes a running call off leaf i.
func (t *tree) ended(i NodeID) {
	for ; i != Root; i = t.nodes[i].parent {
		nd := &t.nodes[i]
		nd.running--
		if nd.running == 0 {
			t.nodes[nd.parent].busy -= nd.weight
		}
	}
}

// move shifts one node's tag by a virtual cost, of either sign, over its weight.
func (t *tree) move(i NodeID, c int64) {
	nd := &t.nodes[i]
	nd.received += c
	nd.flow.add(t.now, c)
	if nd.parent == Root {
		t.nodes[Root].flow.add(t.now, c)
	}
	p := t.nodes[nd.parent].inner
	nd.finish = min(nd.finish+nd.over(c), t.virtualOf(p)+maxAhead)
	p.latest = max(p.latest, nd.finish)
}

// rebaseAt is the virtual time at which the tags below a node are shifted back by it,
// years of saturation away at ordinary weights.
const rebaseAt = int64(1) << 61

// rebase shifts virtual time below a node back to 0, and all tags there with it.
// O(nodes of the pool).
func (t *tree) rebase(parent NodeID) {
	p := t.nodes[parent].inner
	by := p.virtual
	p.virtual = 0
	p.latest = max(p.latest-by, 0)
	p.mean = p.mean - by
	p.levels = p.levels[:0]
	for i := range t.nodes {
		if nd := &t.nodes[i]; nd.parent == parent && NodeID(i) != Root && nd.weight > 0 {
			// A node long gone may lie further back than an int64 reaches from here. It
			// returns at virtual time in any case, so the past is cut there.
			nd.finish = max(nd.finish-by, -rebaseAt)
		}
	}
	for _, h := range p.lanes.each() {
		for k := range h {
			h[k].key = t.nodes[h[k].id].finish
			h.up(k, t) // two that were cut are equal now
		}
	}
}

// over is a virtual cost over the node's weight: how far it moves a tag.
func (n *node) over(cost int64) int64 {
	return signedMulDiv(cost, weightOne, n.weight)
}
