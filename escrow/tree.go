package escrow

import "time"

// tree is start-time fair queueing at every inner node: the waiting child with
// the smallest start tag is served next, and each call moves the tags of its
// leaf and of all above it by cost/weight. It is fair whatever the server's rate
// does, which a rate that follows grants, refunds and 429s needs, and it uses no
// cost before dispatch.
//
// Sources: Goyal, Vin, Cheng, "Start-time Fair Queueing: A Scheduling Algorithm
// for Integrated Services Packet Switching Networks", SIGCOMM 1996, whose
// hierarchy this is; floors are the reservation tags of Gulati, Merchant, Varman,
// "mClock: Handling Throughput Variability for Hypervisor IO Scheduling", OSDI
// 2010.
type tree struct {
	nodes []node
	spare []NodeID // removed, to be used again

	entries []entry
	free    int32 // head of the list of free entries, -1 when empty

	floors [classes]heap // nodes with a floor that wait, by when they are due
	minute int64         // tokens that floors are parts of; without, there are none
	now    int64         // µs since the pool's start

	open     bool   // whether background calls could be served at the last look
	openings uint32 // how often that has come true

	epoch uint64 // of the lead
	lead  int64  // what was dispatched ahead of a fluid server, beyond its slack; a virtual cost
	idles uint64 // how often the pool fell idle
}

// rebaseAt is the tag at which a node's tags are shifted back, years of saturation
// away at ordinary weights.
const rebaseAt = int64(1) << 61

func newTree() tree {
	return tree{nodes: []node{{weight: WeightOne, rank: none, inner: &inner{}}}, free: -1, epoch: 1}
}

// add hangs a node under a parent.
func (t *tree) add(parent NodeID, n Node) NodeID {
	p := &t.nodes[parent]
	if p.inner == nil {
		if p.waiting() > 0 || p.promised > 0 || p.running > 0 {
			panic("escrow: BUG: a leaf that has calls cannot become a parent")
		}
		p.inner = &inner{}
	}
	i := NodeID(len(t.nodes))
	if k := len(t.spare); k > 0 {
		i, t.spare = t.spare[k-1], t.spare[:k-1]
	} else {
		t.nodes = append(t.nodes, node{})
	}
	t.nodes[i] = node{parent: parent, rank: none, at: -1, floorIn: none, floorAt: -1, leaf: noCalls}
	t.nodes[parent].children++
	t.describe(i, n)
	return i
}

var noCalls = leaf{calls: [classes]fifo{{-1, -1}, {-1, -1}}, tickets: fifo{-1, -1}}

// describe gives node i its weight, floor and credit. Debt, and what it may catch
// up, stay what they are in cost.
func (t *tree) describe(i NodeID, n Node) {
	if n.Weight < 1 || n.Weight > MaxWeight || n.Floor < 0 || n.Credit < 0 {
		panic("escrow: BUG: a node's weight, floor or credit is out of range")
	}
	nd := &t.nodes[i]
	p := t.nodes[nd.parent].inner
	p.weights += n.Weight - nd.weight
	if v := t.virtualOf(p); nd.weight > 0 && nd.weight != n.Weight {
		nd.finish = v + max(-maxAhead, min(signedMulDiv(nd.finish-v, int64(nd.weight), int64(n.Weight)), maxAhead))
		p.latest = max(p.latest, nd.finish)
	}
	nd.weight, nd.floor, nd.credit = n.Weight, n.Floor, n.Credit
	t.restandUp(i)
}

// remove takes node i out of the tree, if nothing is lost by it: no call waits,
// runs or may come back to a kept place, and its tags hold no debt to siblings that
// are there to be owed.
func (t *tree) remove(i NodeID) bool {
	nd := &t.nodes[i]
	up := &t.nodes[nd.parent]
	p := up.inner
	debt := nd.finish > t.virtualOf(p) && (nd.parent == Root || up.standing() != none || up.running > 0)
	if nd.inner != nil && nd.children > 0 || nd.rank != none || nd.running > 0 || debt {
		return false
	}
	p.weights -= nd.weight
	if p.children--; p.children == 0 && nd.parent != Root {
		up.inner = nil // a leaf again
	}
	*nd = node{rank: none, at: -1, floorIn: none, floorAt: -1}
	t.spare = append(t.spare, i)
	return true
}

// virtualOf is an inner node's virtual time. When all was idle, whoever was ahead
// owes nobody anything any more.
func (t *tree) virtualOf(p *inner) int64 {
	if p.idle != t.idles {
		return max(p.virtual, p.latest)
	}
	return p.virtual
}

// startTag is the tag of node i if it turned from idle to served now: virtual
// time, or before that by what it has to catch up; of these, the most counts:
//
//   - the lead: those who were served while the pool ran ahead of a fluid server
//     have taken it together, and who comes back only now starts that much
//     earlier. It is shared out level by level, in proportion to what went there.
//   - its credit.
//
// The node's own finish tag keeps all of them from being farmed.
func (t *tree) startTag(i NodeID) int64 {
	nd := &t.nodes[i]
	p := t.nodes[nd.parent].inner
	back := int64(0)
	if root := t.nodes[Root].inner; t.lead > 0 && nd.epoch != t.epoch && p.epoch == t.epoch && p.leading > 0 {
		lead := mulDivCeil(t.lead, p.through, max(1, root.through))
		back = mulDivCeil(lead, int64(WeightOne), int64(p.leading))
	}
	if nd.credit > 0 {
		credit := mulDivCeil(int64(nd.credit/time.Microsecond), tagUnit, windowMicros)
		back = max(back, mulDivCeil(credit, int64(WeightOne), int64(p.weights)))
	}
	return max(t.fluid(nd.parent)-back, nd.finish)
}

// meanEvery is how long a mean is good for, in µs.
const meanEvery = 50_000

// fluid is where the fluid system stands below an inner node: where children that
// return start. Among children some of which are absent, with only their places kept,
// virtual time runs with those who are present and have had more than the others;
// the mean does not.
func (t *tree) fluid(i NodeID) int64 {
	p := t.nodes[i].inner
	v := t.virtualOf(p)
	if t.nodes[i].promised == 0 {
		return v
	}
	if t.now-p.meanAt >= meanEvery || p.meanAt == 0 {
		p.mean, p.meanAt = v+t.meanOf(p, v), t.now
	}
	return min(p.mean, v)
}

// meanOf is the mean of the children's places, by weight, relative to a tag.
func (t *tree) meanOf(p *inner, tag int64) int64 {
	weights, mean := int64(0), int64(0)
	for r := range p.heaps {
		for _, x := range p.heaps[r] {
			weights += int64(t.nodes[x.id].weight)
		}
	}
	for r := range p.heaps {
		for _, x := range p.heaps[r] {
			nd := &t.nodes[x.id]
			mean += signedMulDiv(nd.finish-min(nd.passed, nd.over(nd.promised))-tag, int64(nd.weight), weights)
		}
	}
	return mean
}

// arrive gives leaf i, and all above it that nothing waits below, their tags, as
// a call or a kept place comes to it.
func (t *tree) arrive(i NodeID) {
	for ; i != Root && t.nodes[i].waiting() == 0; i = t.nodes[i].parent {
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
}

// charge moves leaf i and all above it past a call of virtual cost c that starts
// now.
func (t *tree) charge(i NodeID, c int64, open bool) {
	for i != Root {
		nd := &t.nodes[i]
		p := t.nodes[nd.parent].inner
		p.virtual = max(t.virtualOf(p), p.turn(nd.finish, open))
		p.idle = t.idles
		if p.epoch != t.epoch {
			p.epoch, p.through, p.leading = t.epoch, 0, 0
		}
		p.through += c
		if nd.epoch != t.epoch {
			nd.epoch = t.epoch
			p.leading += nd.weight
		}
		t.move(i, c)
		nd.running++
		if p.virtual > rebaseAt {
			t.rebase(nd.parent)
		}
		i = nd.parent
	}
}

// turn is the start tag that virtual time moves to when a child of that tag is
// served: its own, or that of those whom its floor let it pass. (Else a node far
// ahead of its share by its floor would carry virtual time away from its siblings,
// and who returns would wait until they have caught up.)
func (p *inner) turn(tag int64, open bool) int64 {
	for r, h := range p.heaps[:classes] {
		if len(h) > 0 && (open || rank(r) == interactive) {
			tag = min(tag, h[0].key)
		}
	}
	return tag
}

// correct moves the tags of leaf i and all above it by d, the virtual cost of what
// a running call takes beyond what it was charged. A refund is not clipped at
// virtual time: that would cost heavy-tailed tenants a part of their share, and
// it cannot exceed what the call was charged.
func (t *tree) correct(i NodeID, d int64) {
	for ; i != Root; i = t.nodes[i].parent {
		t.move(i, d)
		t.restand(i)
	}
}

// ended takes a running call off leaf i.
func (t *tree) ended(i NodeID) {
	for ; i != Root; i = t.nodes[i].parent {
		t.nodes[i].running--
	}
}

// move shifts one node's tag by a virtual cost over its weight.
func (t *tree) move(i NodeID, c int64) {
	nd := &t.nodes[i]
	p := t.nodes[nd.parent].inner
	nd.finish = min(nd.finish+nd.over(c), t.virtualOf(p)+maxAhead)
	p.latest = max(p.latest, nd.finish)
}

func (t *tree) rebase(parent NodeID) {
	p := t.nodes[parent].inner
	by := p.virtual
	p.virtual, p.latest, p.mean = 0, max(p.latest-by, 0), p.mean-by
	for i := range t.nodes {
		if nd := &t.nodes[i]; nd.parent == parent && NodeID(i) != Root && nd.weight > 0 {
			// A node long gone may lie further back than an int64 reaches from here. It
			// returns at virtual time in any case, so the past is cut there.
			nd.finish = max(nd.finish-by, -rebaseAt)
		}
	}
	for r := range p.heaps {
		for k := range p.heaps[r] {
			p.heaps[r][k].key = t.nodes[p.heaps[r][k].id].finish
			p.heaps[r].up(k, t) // two that were cut are equal now
		}
	}
}

// restand puts node i where it belongs after what waits below it, or its tag, has
// changed.
func (t *tree) restand(i NodeID) {
	nd := &t.nodes[i]
	p := t.nodes[nd.parent].inner
	is := nd.standing()
	switch {
	case nd.rank == is && is == none:
	case nd.rank == is:
		p.heaps[is].set(int(nd.at), nd.finish, t)
	default:
		if nd.rank != none {
			p.heaps[nd.rank].remove(int(nd.at), t)
		}
		if nd.rank = is; is != none {
			p.heaps[is].push(item{nd.finish, int32(i)}, t)
		}
	}
	t.restandFloor(i)
}

// restandUp does so for node i and all above it.
func (t *tree) restandUp(i NodeID) {
	for ; i != Root; i = t.nodes[i].parent {
		t.restand(i)
	}
}

// moved and tie make tree the keeper of the heaps of children.
func (t *tree) moved(id int32, at int) { t.nodes[id].at = int32(at) }

// tie: of equal starts the one that would finish first goes first, so that light
// calls do not wait for heavy ones.
func (t *tree) tie(a, b int32) bool {
	fa, fb := t.nodes[a].over(t.headCost(NodeID(a))), t.nodes[b].over(t.headCost(NodeID(b)))
	if fa != fb {
		return fa < fb
	}
	return a < b
}

// headCost is the virtual cost of the call below node i that is first in line.
func (t *tree) headCost(i NodeID) int64 {
	for t.nodes[i].inner != nil {
		heaps := &t.nodes[i].heaps
		switch {
		case len(heaps[interactive]) > 0:
			i = NodeID(heaps[interactive][0].id)
		case len(heaps[background]) > 0:
			i = NodeID(heaps[background][0].id)
		default:
			return 0
		}
	}
	for _, f := range t.nodes[i].calls {
		if f.head >= 0 {
			return t.entries[f.head].virtual
		}
	}
	return 0
}

// next is the leaf to be served next, and, when it is for its floor, the node
// whose floor that is. open says whether background calls may be served.
func (t *tree) next(open bool) (leaf, floored NodeID, ok bool) {
	if open && !t.open {
		t.openings++
	}
	t.open = open
	floored = t.dueFloor(open)
	if root := &t.nodes[Root]; floored == Root && len(root.heaps[interactive]) == 0 && (!open || len(root.heaps[background]) == 0) {
		return 0, Root, false
	}
	for !ok {
		leaf, ok = t.descend(floored, open)
	}
	return leaf, floored, true
}

// unpark reports whether the background child of node i that is first was parked,
// and lets it stand where it would if it returned now: what was parked waited for
// slots that are kept for others, and must not catch up on that.
func (t *tree) unpark(i NodeID) bool {
	second := t.nodes[i].heaps[background]
	if len(second) == 0 || t.nodes[second[0].id].opening == t.openings {
		return false
	}
	i = NodeID(second[0].id)
	t.nodes[i].opening, t.nodes[i].finish = t.openings, t.startTag(i)
	t.restandUp(i)
	return true
}

// descend follows the smallest tags from node i to a leaf, unless on its way a tag
// has changed.
func (t *tree) descend(i NodeID, open bool) (NodeID, bool) {
	for t.nodes[i].inner != nil {
		if open && t.unpark(i) {
			return 0, false
		}
		first, second := t.nodes[i].heaps[interactive], t.nodes[i].heaps[background]
		switch {
		case !open || len(second) == 0:
			i = NodeID(first[0].id)
		case len(first) == 0 || first.before(second[0], first[0], t):
			i = NodeID(second[0].id)
		default:
			i = NodeID(first[0].id)
		}
	}
	return i, true
}
