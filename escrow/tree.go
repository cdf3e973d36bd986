package escrow

// tree is start-time fair queueing at every inner node: the waiting child with
// the smallest start tag is served next, and each call moves the tags of its
// leaf and of all above it by cost/weight. It is fair whatever the server's rate
// does, which a rate that follows bursts and refunds needs, and it uses the cost of
// no call before its dispatch, but to break ties.
//
// Sources: Goyal, Vin, Cheng, "Start-time Fair Queueing: A Scheduling Algorithm
// for Integrated Services Packet Switching Networks", SIGCOMM 1996, whose
// hierarchy this is; floors are the reservation tags of Gulati, Merchant, Varman,
// "mClock: Handling Throughput Variability for Hypervisor IO Scheduling", OSDI
// 2010.
type tree struct {
	nodes []node
	spare []NodeID // removed, to be used again
	aside []NodeID // nodes that stand aside at their soft caps or restrictions

	entries []entry
	free    int32 // head of the list of free entries, -1 when empty

	floors lanes // nodes with a floor that wait, by when they are due
	parted bool  // the pool has Upstreams, so that lanes matter
	over   Mask  // upstreams whose calls are passed over, in Pump
	minute int64 // tokens that floors are parts of; without, there are none
	now    int64 // µs since the pool's start, of the latest verb

	// Background calls are open unless the interactive reserve keeps them waiting (Pool.reserved).
	// While it does they are parked: they stand in their heaps, where nobody looks.
	open     bool   // at the last look
	parks    bool   // they were kept waiting for reserved slots since they were open
	openings uint32 // how often they were opened after that

	lead  int64  // dispatched ahead of a fluid server, beyond a second; a virtual cost
	epoch uint64 // of the lead: a new one begins while there is none

	waitingVia viaCount              // in a pool that has Upstreams
	bands      [LowestBand + 1]int32 // calls that wait below no node that stands aside, by Node.Below of their leaves
	full       []int64               // by upstream, when it last had no room for a call, in µs of the pool

	looking bool   // nothing that is worked out now is to be kept
	idles   uint64 // how often the pool fell idle
}

func newTree() tree {
	return tree{nodes: []node{{weight: weightOne, stands: nowhere, floors: nowhere, inner: &inner{}}}, free: -1, epoch: 1}
}

// add hangs a node under a parent.
func (t *tree) add(parent NodeID, n Node) NodeID {
	p := &t.nodes[parent]
	if p.inner == nil {
		if p.waiting() > 0 || p.promised > 0 || p.running > 0 {
			panic("escrow: BUG: a leaf that has calls cannot become a parent")
		}
		p.inner = &inner{}
		p.restricted = nil
	}
	i := NodeID(len(t.nodes))
	if k := len(t.spare); k > 0 {
		i = t.spare[k-1]
		t.spare = t.spare[:k-1]
	} else {
		t.nodes = append(t.nodes, node{})
	}
	t.nodes[i] = node{parent: parent, stands: nowhere, floors: nowhere, share: shareWhole, leaf: noCalls}
	t.nodes[parent].children++
	t.describe(i, n)
	return i
}

// describe gives node i its weight, floor and credit. Debt, and the service that it may catch
// up, stay the same in cost.
func (t *tree) describe(i NodeID, n Node) {
	if !n.Weight.Valid() || n.Floor < 0 || n.Credit < 0 || n.Below < 0 || n.Below > LowestBand {
		panic("escrow: BUG: a node's weight, floor, credit or band is out of range")
	}
	nd := &t.nodes[i]
	if from := nd.claim.Below; from != n.Below {
		t.countVia(i, from, -1)
		t.countVia(i, n.Below, 1)
	}
	t.countBands(i, -1)
	nd.claim = n
	t.countBands(i, 1)
	n = n.scaled(nd.share)
	weight := n.Weight.Thousandths()
	p := t.nodes[nd.parent].inner
	p.weights += weight - nd.weight
	if nd.running > 0 {
		p.busy += weight - nd.weight
	}
	if v := t.virtualOf(p); nd.weight > 0 && nd.weight != weight {
		nd.finish = v + max(-maxAhead, min(signedMulDiv(nd.finish-v, nd.weight, weight), maxAhead))
		p.latest = max(p.latest, nd.finish)
		nd.passed = min(signedMulDiv(nd.passed, nd.weight, weight), maxAhead)
	}
	nd.weight = weight
	nd.floor = n.Floor
	nd.credit = n.Credit
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
	if nd.inner != nil && nd.children > 0 || nd.stands.rank != none || nd.running > 0 || nd.paused > 0 || debt {
		return false
	}
	p.weights -= nd.weight
	p.children--
	if p.children == 0 && nd.parent != Root {
		up.inner = nil // a leaf again
	}
	*nd = node{stands: nowhere, floors: nowhere}
	t.spare = append(t.spare, i)
	return true
}

// restand puts node i where it belongs after its backlog, or its tag, has
// changed.
func (t *tree) restand(i NodeID) {
	nd := &t.nodes[i]
	p := t.nodes[nd.parent].inner
	p.lanes.stand(&nd.stands, nd.standing(), t.headsOf(i), item{nd.finish, int32(i)}, t)
	t.restandFloor(i)
}

// restandUp does so for node i and all above it, from below, as who goes first of
// equal tags depends on the calls that go first below them (tie).
func (t *tree) restandUp(i NodeID) {
	for ; i != Root; i = t.nodes[i].parent {
		t.restand(i)
	}
}

// moved makes, with tie, the tree the keeper of the heaps of children.
func (t *tree) moved(id int32, at int) { t.nodes[id].stands.at = int32(at) }

// tie: of equal starts the one that would finish first goes first, so that light
// calls do not wait for heavy ones.
func (t *tree) tie(a, b int32) bool {
	fa := t.nodes[a].over(t.headCost(NodeID(a)))
	fb := t.nodes[b].over(t.headCost(NodeID(b)))
	if fa != fb {
		return fa < fb
	}
	return a < b
}

// reorder puts all that stands below node i in order, from below, after which of equal
// tags goes first has changed for many at once: to restand them one by one would sift
// each through heaps that are not in order.
func (t *tree) reorder(i NodeID) {
	p := t.nodes[i].inner
	if p == nil {
		return
	}
	for _, h := range p.lanes.each() {
		for _, x := range h {
			t.reorder(NodeID(x.id))
		}
	}
	for _, h := range p.lanes.each() {
		for at := range h {
			h.up(at, t)
		}
	}
}

// headCost is the virtual cost of the call below node i that is first in line, going
// by class, and of each class by tags; 0 when only places are kept there.
func (t *tree) headCost(i NodeID) int64 {
	for t.nodes[i].inner != nil {
		child, ok := t.nodes[i].lanes.first(interactive, t)
		if !ok {
			child, ok = t.nodes[i].lanes.first(background, t)
		}
		if !ok {
			return 0
		}
		i = NodeID(child.id)
	}
	for _, f := range t.nodes[i].calls {
		if f.head >= 0 {
			return t.entries[f.head].virtual
		}
	}
	return 0
}

// next is the leaf to be served next, and, when it is for a floor, the node whose
// floor that is, else Root; ok is false when nothing that may be served waits. open
// says whether background calls may be.
func (t *tree) next(open bool) (leaf, floored NodeID, ok bool) {
	if open && t.parks {
		t.openings++
		t.parks = false
	}
	t.open = open
	floored = t.dueFloor(open)
	if floored == Root && !t.waits(open) {
		return 0, Root, false
	}
	for !ok {
		leaf, ok = t.descend(floored, open)
	}
	return leaf, floored, true
}

// waits reports whether a call waits that may be served; open says whether background calls may be.
func (t *tree) waits(open bool) bool {
	_, first := t.firstBelow(Root, interactive)
	_, second := t.firstBelow(Root, background)
	return first || open && second
}

// unpark reports whether the background child of node i that is first was parked,
// and lets it stand where it would if it returned now: parked calls waited for
// slots that are kept for others, and must not catch up on that.
func (t *tree) unpark(i NodeID) bool {
	second, ok := t.firstBelow(i, background)
	if !ok || t.nodes[second.id].opening == t.openings {
		return false
	}
	i = NodeID(second.id)
	t.nodes[i].opening = t.openings
	t.nodes[i].finish = t.startTag(i)
	t.restandUp(i)
	return true
}

// descend follows the smallest tags from node i to a leaf. It reports false when a tag
// has changed on its way: then it is to begin again.
func (t *tree) descend(i NodeID, open bool) (NodeID, bool) {
	for t.nodes[i].inner != nil {
		if open && t.unpark(i) {
			return 0, false
		}
		// Children are served by tag, whichever class of calls they have.
		first, some := t.firstBelow(i, interactive)
		second, others := t.firstBelow(i, background)
		if open && others && (!some || heap(nil).before(second, first, t)) {
			first = second
		}
		i = NodeID(first.id)
	}
	return i, true
}
