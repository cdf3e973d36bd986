package escrow

// enqueue lets entry n wait at its leaf. The caller restands that.
func (t *tree) enqueue(n int32) {
	e := &t.entries[n]
	e.state = entryQueued
	list := &t.nodes[e.leaf].calls[e.class]
	after, before := list.tail, list.head // from both ends: few calls are of other priorities, before or behind the rest
	for after >= 0 && e.goesBefore(&t.entries[after]) {
		after = t.entries[after].prev
		if e.goesBefore(&t.entries[before]) {
			after = t.entries[before].prev
			break
		}
		before = t.entries[before].next
	}
	t.link(list, n, after)
	t.count(e, 1)
}

// goesBefore says whether a call goes before one of its leaf and class that came earlier: because of its priority, or since it has come
// back and that one has come since, or was promised a later turn.
func (e *entry) goesBefore(o *entry) bool {
	if e.below != o.below {
		return e.below < o.below
	}
	return e.back && (!o.back || o.turn.After(e.turn))
}

// dequeue takes it out again. The caller restands its leaf.
func (t *tree) dequeue(n int32) {
	e := &t.entries[n]
	t.unlink(&t.nodes[e.leaf].calls[e.class], n)
	t.count(e, -1)
	t.nodes[e.leaf].yield(e, 0)
}

// count adds (by = 1) or takes away (by = -1) a queued call, or a ticket, to the sums that its
// leaf, and all above it, have below them. The caller restands them.
func (t *tree) count(e *entry, by int64) {
	if e.state == entryTicket {
		t.nodes[e.leaf].patience.kept[e.length] += by * e.virtual
		t.doubt(e.leaf)
	}
	if e.class == background {
		t.nodes[e.leaf].later += by * e.virtual
	}
	if e.via != 0 && e.state == entryQueued {
		t.waitingVia.add(e, t.nodes[e.leaf].claim.Below, by)
	}
	ready := true
	for i := e.leaf; ; i = t.nodes[i].parent {
		nd := &t.nodes[i]
		nd.backlog += by * e.virtual
		for k := range nd.booked {
			nd.booked[k] += by * e.cost[k]
		}
		if e.state == entryTicket {
			nd.promised += by * e.virtual
		} else {
			nd.queued[e.class] += int32(by)
			if ready {
				nd.ready[e.class] += int32(by)
			}
			ready = ready && !nd.aside
		}
		if i == Root {
			break
		}
	}
	if ready && e.state == entryQueued {
		t.bands[t.nodes[e.leaf].claim.Below] += int32(by)
	}
}

// backgroundShare is which part of a leaf's service background calls get at least
// while interactive ones wait: one in so many.
const backgroundShare = 20

// head is the call of leaf i that is next, one of which waits: an interactive one,
// unless background calls are open and are owed their least share. Those that are passed over count as none: then it
// may be none, -1.
func (t *tree) head(i NodeID, open bool) int32 {
	l := &t.nodes[i]
	first := t.unlessOver(l.calls[interactive].head)
	second := t.unlessOver(l.calls[background].head)
	switch {
	case second < 0 || !open && l.queued[interactive] > 0:
		return first
	case first < 0 || l.yielded >= t.entries[second].virtual*(backgroundShare-1):
		return second
	}
	return first
}

// unlessOver is a call, or -1 if it is passed over.
func (t *tree) unlessOver(n int32) int32 {
	if n >= 0 && t.passedOver(t.entries[n].via) {
		return -1
	}
	return n
}

// yield keeps the account (leaf.yielded) of the service that background calls have let pass, as
// entry e leaves the queue with so much of service: none, if it was withdrawn.
func (n *node) yield(e *entry, served int64) {
	switch {
	case n.queued[background] == 0:
		n.yielded = 0
	case e.class == interactive:
		n.yielded += served
	default:
		n.yielded = max(0, n.yielded-served*(backgroundShare-1))
	}
}
