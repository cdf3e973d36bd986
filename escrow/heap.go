package escrow

// item is an element of a heap: the key for sorting, and its owner. The key
// lies in the heap, so that sifting through 100,000 items does not touch each
// of their owners.
type item struct {
	key int64
	id  int32
}

// heap is a 4-ary min-heap. Its methods take the keeper of its items, which
// knows where each is, so that any item can be moved or taken out.
type heap []item

// keeper keeps the positions of a heap's items, and decides between equal keys.
type keeper interface {
	moved(id int32, at int) // at is -1 once the item is out
	tie(a, b int32) bool    // a goes before b
}

const fanout = 4

func (h heap) before(a, b item, k keeper) bool {
	if a.key != b.key {
		return a.key < b.key
	}
	return k.tie(a.id, b.id)
}

func (h *heap) push(x item, k keeper) {
	*h = append(*h, x)
	h.up(len(*h)-1, k)
}

// remove takes out the item at a position.
func (h *heap) remove(at int, k keeper) {
	s := *h
	last := len(s) - 1
	k.moved(s[at].id, -1)
	s[at] = s[last]
	if at == last {
		*h = s[:last]
		return
	}
	*h = s[:last]
	h.fix(at, k)
}

// set changes the key of the item at a position.
func (h heap) set(at int, key int64, k keeper) {
	h[at].key = key
	h.fix(at, k)
}

// fix moves an item whose key, or whose tie, has changed.
func (h heap) fix(at int, k keeper) {
	if !h.up(at, k) {
		h.down(at, k)
	}
}

// up moves an item towards the top, and reports whether it has moved.
func (h heap) up(at int, k keeper) bool {
	x := h[at]
	from := at
	for at > 0 {
		parent := (at - 1) / fanout
		if !h.before(x, h[parent], k) {
			break
		}
		h[at] = h[parent]
		k.moved(h[at].id, at)
		at = parent
	}
	h[at] = x
	k.moved(x.id, at)
	return at != from
}

// down moves an item away from the top.
func (h heap) down(at int, k keeper) {
	x := h[at]
	for {
		child := fanout*at + 1
		if child >= len(h) {
			break
		}
		for other := child + 1; other < len(h) && other <= fanout*at+fanout; other++ {
			if h.before(h[other], h[child], k) {
				child = other
			}
		}
		if !h.before(h[child], x, k) {
			break
		}
		h[at] = h[child]
		k.moved(h[at].id, at)
		at = child
	}
	h[at] = x
	k.moved(x.id, at)
}
