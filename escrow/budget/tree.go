package budget

// tree keeps the members that have asked in order of their position in their
// share, with sums over every prefix: so that the reserve for all of them,
// now or at any later time, is known in O(log N). It is a treap: a search tree
// by (position, slot) and a heap by a hash of the slot, which makes it shallow
// without any rebalancing. Nodes have the numbers of their members' slots.
type tree struct {
	span  int64 // length of the window; no position is beyond it
	root  int32
	nodes []node
}

const none = int32(-1)

type node struct {
	pos, weight int64
	// Sums over the subtree: of weights, and of weight × (span - pos).
	sumWeight   int64
	sumLeft     wide
	left, right int32
}

// reset empties the tree for a window of span µs.
func (t *tree) reset(span int64) {
	t.span = span
	t.root = none
}

// weight is the sum of all weights.
func (t *tree) weight() int64 {
	if t.root == none {
		return 0
	}
	return t.nodes[t.root].sumWeight
}

// insert adds slot i, which must not be in the tree.
func (t *tree) insert(i int32, pos, weight int64) {
	for int(i) >= len(t.nodes) {
		t.nodes = append(t.nodes, node{})
	}
	t.nodes[i] = node{pos: pos, weight: weight}
	t.root = t.insertAt(t.root, i)
}

func (t *tree) insertAt(at, i int32) int32 {
	if at == none || rank(i) > rank(at) {
		n := &t.nodes[i]
		n.left, n.right = t.split(at, i)
		t.sum(i)
		return i
	}
	n := &t.nodes[at]
	if t.less(i, at) {
		n.left = t.insertAt(n.left, i)
	} else {
		n.right = t.insertAt(n.right, i)
	}
	t.sum(at)
	return at
}

// remove takes out slot i, which must be in the tree.
func (t *tree) remove(i int32) { t.root = t.removeAt(t.root, i) }

func (t *tree) removeAt(at, i int32) int32 {
	n := &t.nodes[at]
	switch {
	case at == i:
		return t.merge(n.left, n.right)
	case t.less(i, at):
		n.left = t.removeAt(n.left, i)
	default:
		n.right = t.removeAt(n.right, i)
	}
	t.sum(at)
	return at
}

// split parts the subtree into the part before slot i and the part after it.
func (t *tree) split(at, i int32) (before, after int32) {
	if at == none {
		return none, none
	}
	n := &t.nodes[at]
	if t.less(at, i) {
		n.right, after = t.split(n.right, i)
		before = at
	} else {
		before, n.left = t.split(n.left, i)
		after = at
	}
	t.sum(at)
	return before, after
}

// merge joins two subtrees, all of a before all of b.
func (t *tree) merge(a, b int32) int32 {
	switch {
	case a == none:
		return b
	case b == none:
		return a
	case rank(a) > rank(b):
		t.nodes[a].right = t.merge(t.nodes[a].right, b)
		t.sum(a)
		return a
	default:
		t.nodes[b].left = t.merge(a, t.nodes[b].left)
		t.sum(b)
		return b
	}
}

// sum brings the sums of one node up to date with its children's.
func (t *tree) sum(i int32) {
	n := &t.nodes[i]
	n.sumWeight = n.weight
	n.sumLeft = mul(n.weight, t.span-n.pos)
	for _, child := range [...]int32{n.left, n.right} {
		if child != none {
			n.sumWeight += t.nodes[child].sumWeight
			n.sumLeft = n.sumLeft.plus(t.nodes[child].sumLeft)
		}
	}
}

func (t *tree) less(a, b int32) bool {
	return t.nodes[a].pos < t.nodes[b].pos || t.nodes[a].pos == t.nodes[b].pos && a < b
}

// upTo is the node's weight and weight × (span - pos) with those of its left
// subtree: all of its subtree that is at its position or before.
func (t *tree) upTo(i int32) (weight int64, left wide) {
	n := &t.nodes[i]
	weight = n.weight
	left = mul(n.weight, t.span-n.pos)
	if n.left != none {
		weight += t.nodes[n.left].sumWeight
		left = left.plus(t.nodes[n.left].sumLeft)
	}
	return weight, left
}

// total is the weight × (span - pos) of all.
func (t *tree) total() wide {
	if t.root == none {
		return wide{}
	}
	return t.nodes[t.root].sumLeft
}

// unspent is the weight × time that members have before them at time at, who
// are at their position, or at the present if that is later. idle is the
// weight of members outside of the tree, which are at the present.
func (t *tree) unspent(at, idle int64) wide {
	behind := idle
	ahead := t.total()
	for i := t.root; i != none; {
		if t.nodes[i].pos > at {
			i = t.nodes[i].left
			continue
		}
		weight, left := t.upTo(i)
		behind += weight
		ahead = ahead.minus(left)
		i = t.nodes[i].right
	}
	return mul(behind, t.span-at).plus(ahead)
}

// earliest is the first time at which unspent is at most want ≥ 0, which at
// present it is not. Between two positions unspent is a falling line; the search
// finds the two, and the rest is a division.
func (t *tree) earliest(idle int64, want wide) int64 {
	behind := idle
	ahead := t.total()
	for i := t.root; i != none; {
		weight, left := t.upTo(i)
		weight += behind
		left = ahead.minus(left)
		if want.less(mul(weight, t.span-t.nodes[i].pos).plus(left)) {
			behind = weight
			ahead = left
			i = t.nodes[i].right // not yet, when the present is there
			continue
		}
		i = t.nodes[i].left
	}
	return t.span - want.minus(ahead).over(behind).int()
}

// rank is the heap's order: a hash of the slot (the finaliser of splitmix64),
// so that it is the same in every run.
func rank(i int32) uint64 {
	x := uint64(i) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
