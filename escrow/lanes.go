package escrow

import "iter"

// lanes are the children of a node in order: in a lane of their own those whose next calls may use the same upstreams, and there
// a heap for each rank. So all that wait for upstreams that are full are passed over in one step, however many they are. There are
// few lanes: one for each set of upstreams that tenants may use, and one alone in a pool without Upstreams.
type lanes []lane

type lane struct {
	heads
	heaps [ranks]heap
}

// heads are the upstreams that the next calls below a node may use: the interactive ones, and those of both classes.
type heads struct{ interactive, all Mask }

// spot is where an item stands in lanes.
type spot struct {
	rank rank // none: nowhere
	lane int32
	at   int32 // position in the heap
}

// nowhere is the spot of an item that does not stand in lanes.
var nowhere = spot{rank: none, at: -1}

// stand puts an item in the lane of its heads, with those of a rank, from where it stood. The keeper notes its position.
func (l *lanes) stand(from *spot, to rank, via heads, x item, k keeper) {
	if from.rank != none {
		lane := &(*l)[from.lane]
		if from.rank == to && lane.heads == via {
			lane.heaps[to].set(int(from.at), x.key, k)
			return
		}
		lane.heaps[from.rank].remove(int(from.at), k)
	}
	from.rank = to
	if to != none {
		from.lane = l.of(via)
		(*l)[from.lane].heaps[to].push(x, k)
	}
}

// of is the lane of some heads: one that is there, or an empty one, or a new one.
func (l *lanes) of(via heads) int32 {
	empty := len(*l)
	for n := range *l {
		switch one := &(*l)[n]; {
		case one.heads == via:
			return int32(n)
		case one.empty():
			empty = n
		}
	}
	if empty == len(*l) {
		*l = append(*l, lane{})
	}
	(*l)[empty].heads = via
	return int32(empty)
}

func (l *lane) empty() bool {
	for r := range l.heaps {
		if len(l.heaps[r]) > 0 {
			return false
		}
	}
	return true
}

// first is the first item of a rank.
func (l lanes) first(r rank, k keeper) (first item, ok bool) {
	for n := range l {
		first, ok = l[n].earlier(first, ok, r, k)
	}
	return first, ok
}

// earlier is the first item of a rank in the lane, or another one, if there is one and it goes before.
func (l *lane) earlier(other item, there bool, r rank, k keeper) (item, bool) {
	h := l.heaps[r]
	if len(h) == 0 || there && !h.before(h[0], other, k) {
		return other, there
	}
	return h[0], true
}

// heads are those of all that stands in the lanes and may be served.
func (l lanes) heads() (sum heads) {
	for n := range l {
		first := len(l[n].heaps[interactive]) > 0
		if first {
			sum.interactive |= l[n].interactive
		}
		if first || len(l[n].heaps[background]) > 0 {
			sum.all |= l[n].all
		}
	}
	return sum
}

// each iterates over the heaps of all lanes.
func (l lanes) each() iter.Seq2[rank, heap] {
	return func(yield func(rank, heap) bool) {
		for n := range l {
			for r, h := range l[n].heaps {
				if !yield(rank(r), h) {
					return
				}
			}
		}
	}
}

// headsOf are the heads below a node.
func (t *tree) headsOf(i NodeID) (sum heads) {
	if !t.parted {
		return heads{}
	}
	nd := &t.nodes[i]
	if nd.inner != nil {
		return nd.lanes.heads()
	}
	for class, list := range nd.calls {
		if list.head < 0 {
			continue
		}
		via := t.entries[list.head].via
		sum.all |= via
		if rank(class) == interactive {
			sum.interactive = via
		}
	}
	return sum
}

// passedOver reports whether calls that may use some upstreams are passed over, because earlier ones wait for all of these.
func (t *tree) passedOver(via Mask) bool { return t.over != 0 && via&^t.over == 0 }

// passesLane reports whether the nodes of a rank in a lane are passed over. A node of interactive calls may be served for its
// background calls, if these are open.
func (t *tree) passesLane(l *lane, r rank) bool {
	if r == interactive && !t.open {
		return t.passedOver(l.interactive)
	}
	return t.passedOver(l.all)
}

// first is the first item of a rank that is not passed over.
func (t *tree) first(l lanes, r rank, k keeper) (first item, ok bool) {
	if t.over == 0 {
		return l.first(r, k)
	}
	for n := range l {
		if !t.passesLane(&l[n], r) {
			first, ok = l[n].earlier(first, ok, r, k)
		}
	}
	return first, ok
}

// firstBelow is the first child of a node of a rank that is not passed over.
func (t *tree) firstBelow(i NodeID, r rank) (child item, ok bool) {
	return t.first(t.nodes[i].lanes, r, t)
}
