package lengths

import (
	"math/bits"
	"strings"
)

// levels is how many nodes learn from one call: its tenant's, its tier's and its
// model's.
const levels = 3

// maxName bounds the kept part of a name, because names come from callers.
const maxName = 256

// key names a node. Calls are told apart by the power of two above what they may
// take at most, too: who asks for 16,000 tokens expects another answer than
// who asks for 100, and lengths cut at different heights do not add up.
type key struct {
	kind  Kind
	level uint8
	most  uint8 // ⌈log₂⌉
}

func keyOf(k Kind, most int64) key {
	cut := func(s string) string { return s[:min(len(s), maxName)] }
	return key{
		kind: Kind{Tenant: cut(k.Tenant), Tier: cut(k.Tier), Model: cut(k.Model)},
		most: uint8(bits.Len64(uint64(max(most, 1) - 1))),
	}
}

// up is the key of the next level; false at the last.
func (k key) up() (key, bool) {
	switch k.level {
	case 0:
		k.kind.Tenant = ""
	case 1:
		k.kind.Tier = ""
	default:
		return k, false
	}
	k.level++
	return k, true
}

// Place is where a Book has a kind. Whoever asks for the same kind again and again keeps one, to save a search. The zero
// Place is where nothing is.
type Place struct{ node int32 }

// find returns the node of a key, or of the nearest level above; 0 if none.
func (b *Book) find(k key, at *Place) int32 {
	if i := b.at(k, at); i != 0 {
		return i
	}
	for k, ok := k.up(); ok; k, ok = k.up() {
		if i := b.index[k]; i != 0 {
			return i
		}
	}
	return 0
}

// at returns the node of a key, which it looks for at a place first, and notes there; 0 if there is none.
func (b *Book) at(k key, at *Place) int32 {
	if at.node == 0 || b.nodes[at.node].key != k {
		at.node = b.index[k]
	}
	return at.node
}

// learn returns the node of a key, making it and those above it. Where every
// place is taken by kinds that have calls running, it is the nearest level above.
func (b *Book) learn(k key) int32 {
	if i := b.index[k]; i != 0 {
		return i
	}
	parent := int32(0)
	if up, ok := k.up(); ok {
		parent = b.learn(up)
		if parent == 0 {
			return 0
		}
		b.pin(parent) // before room is made for its child
	}
	i := b.room()
	if i == 0 {
		b.unpin(parent)
		return parent
	}
	b.settle(i, k, parent)
	return i
}

// settle makes place i a node that knows nothing yet. It shares names with its parent, where they are read often.
func (b *Book) settle(i int32, k key, parent int32) {
	up := b.nodes[parent].key.kind
	k.kind = Kind{strings.Clone(k.kind.Tenant), cloneUnless(k.kind.Tier, up.Tier), cloneUnless(k.kind.Model, up.Model)}
	n := &b.nodes[i]
	old := *n
	*n = node{key: k, gen: old.gen + 1, parent: parent, bins: append(old.bins[:0], bin{})}
	b.index[k] = i
	b.idle(i)
}

// cloneUnless is a copy of a name, or the known one if it is the same.
func cloneUnless(name, known string) string {
	if name == known {
		return known
	}
	return strings.Clone(name)
}

// room returns a place for one more node, 0 if there is none. Who has learned
// least goes first: kinds with too few completions to be of use, then the others,
// of each the least recently used. So a flood of made-up names evicts itself.
// But a quarter of the places is kept from those who know, for those who learn.
func (b *Book) room() int32 {
	if len(b.nodes) <= b.cfg.MaxKinds {
		b.nodes = append(b.nodes, node{})
		return int32(len(b.nodes) - 1)
	}
	from := &b.novices
	if from.first == 0 || b.learned > b.cfg.MaxKinds*3/4 {
		from = &b.experts
	}
	if from.first == 0 {
		from = &b.novices
	}
	i := from.first
	if i == 0 {
		return 0
	}
	n := &b.nodes[i]
	b.take(i)
	delete(b.index, n.key)
	if n.whole >= b.cfg.Enough {
		b.learned--
	}
	if n.parent != 0 {
		b.unpin(n.parent)
	}
	return i
}

// pin keeps a node from being evicted, until unpin.
func (b *Book) pin(i int32) {
	n := &b.nodes[i]
	if n.list != nil {
		b.take(i)
	}
	n.pins++
}

func (b *Book) unpin(i int32) {
	if i == 0 {
		return
	}
	n := &b.nodes[i]
	n.pins--
	if n.pins == 0 {
		b.idle(i)
	}
}

// list is a chain of nodes that nothing pins, least recently used first.
type list struct {
	first, last int32
}

// idle appends a node to the list where it belongs.
func (b *Book) idle(i int32) {
	n := &b.nodes[i]
	n.list = &b.novices
	if n.whole >= b.cfg.Enough {
		n.list = &b.experts
	}
	n.prev = n.list.last
	n.next = 0
	if n.prev == 0 {
		n.list.first = i
	} else {
		b.nodes[n.prev].next = i
	}
	n.list.last = i
}

// take removes a node from its list.
func (b *Book) take(i int32) {
	n := &b.nodes[i]
	if n.prev == 0 {
		n.list.first = n.next
	} else {
		b.nodes[n.prev].next = n.next
	}
	if n.next == 0 {
		n.list.last = n.prev
	} else {
		b.nodes[n.next].prev = n.prev
	}
	n.list = nil
}
