package escrow

import (
	"fmt"
	"slices"
)

// Check tests the invariants that a state can show (I7 to I9 for the most part), and
// changes nothing. Tests and fuzzers call it after every step; it costs O(everything).
func (p *Pool) Check() error {
	sums := make([]node, len(p.nodes)) // of the entries, by node
	var running, later int64
	var refunds, held, coming Cost
	var bands [LowestBand + 1]int32
	var via viaCount
	places := 0
	for i := range p.entries {
		e := &p.entries[i]
		switch e.state {
		case entryFree:
			continue
		case entryRunning:
			running++
			if e.class == background {
				later++
			}
			refunds = refunds.plus(e.refund())
			for k := range p.axes {
				in := &e.books[k]
				if p.axes[k].era != in.era {
					continue // it is in other books
				}
				held[k] += in.held
				if c := p.axes[k].cal; c != nil {
					coming[k] += in.plan.upTo(in.plan.to) - in.plan.upTo(c.ledger.cur)
				}
			}
		case entryTicket:
			places++
		}
		ready := e.state == entryQueued
		for at := e.leaf; ; at = p.nodes[at].parent {
			sums[at].sum(e)
			if ready {
				sums[at].ready[e.class]++
			}
			ready = ready && !p.nodes[at].aside
			if at == Root {
				break
			}
		}
		if ready {
			bands[p.nodes[e.leaf].claim.Below]++
		}
		if e.state == entryQueued && e.via != 0 {
			via.add(e, p.nodes[e.leaf].claim.Below, 1)
		}
	}
	if running != p.running || refunds != p.refunds {
		return fmt.Errorf("escrow: I7: %d calls run and %d are due back, the pool counts %d and %d", running, refunds, p.running, p.refunds)
	}
	if later != p.background {
		return fmt.Errorf("escrow: I7: %d background calls run, the pool counts %d", later, p.background)
	}
	if bands != p.bands {
		return fmt.Errorf("escrow: I7: %d calls wait by band, the pool counts %d", bands, p.bands)
	}
	for _, v := range via {
		if !slices.Contains(p.waitingVia, v) || len(via) != len(p.waitingVia) {
			return fmt.Errorf("escrow: I7: by upstreams and bands wait %v, the pool counts %v", via, p.waitingVia)
		}
	}
	if places != len(p.tickets.ends) {
		return fmt.Errorf("escrow: I8: %d places are kept, %d have an end", places, len(p.tickets.ends))
	}
	for k := range p.axes {
		if a := &p.axes[k]; a.on {
			if err := a.check(Axis(k), held[k], coming[k]); err != nil {
				return err
			}
		}
	}
	for i := range p.nodes {
		if err := p.checkNode(NodeID(i), &sums[i]); err != nil {
			return err
		}
	}
	for r, h := range p.floors.each() {
		if err := checkHeap(h, (*floorOrder)(&p.tree), func(id int32) (int32, int64) { return p.nodes[id].floors.at, p.nodes[id].due }); err != nil {
			return fmt.Errorf("%w of floors %d", err, r)
		}
	}
	return checkHeap(p.tickets.ends, (*ticketOrder)(p), func(id int32) (int32, int64) {
		return p.entries[id].at, p.micros(p.entries[id].promised.Add(TicketGrace))
	})
}

// sum adds an entry to the sums of its node and of those above, as count and charge do.
func (n *node) sum(e *entry) {
	if e.state == entryRunning {
		n.running++
		return
	}
	n.backlog += e.virtual
	if e.class == background {
		n.later += e.virtual
	}
	n.booked = n.booked.plus(e.cost)
	if e.state == entryTicket {
		n.promised += e.virtual
		n.places++
	} else {
		n.queued[e.class]++
	}
}

// checkNode compares the counts of a node with the sums of the entries below it,
// and looks at the heaps of its children.
func (p *Pool) checkNode(i NodeID, sum *node) error {
	n := &p.nodes[i]
	if i == Root {
		sum.running = 0 // the pool counts these itself
	}
	if n.backlog != sum.backlog || n.booked != sum.booked || n.promised != sum.promised || n.queued != sum.queued || n.running != sum.running {
		return fmt.Errorf("escrow: I7: below node %d wait %v (cost %d, booked %v, promised %d) and %d run; it counts %v (%d, %v, %d) and %d",
			i, sum.queued, sum.backlog, sum.booked, sum.promised, sum.running, n.queued, n.backlog, n.booked, n.promised, n.running)
	}
	if n.ready != sum.ready {
		return fmt.Errorf("escrow: I7: below node %d %v calls are ready, it counts %v", i, sum.ready, n.ready)
	}
	if n.inner == nil && n.later != sum.later {
		return fmt.Errorf("escrow: I7: at leaf %d background calls of %d wait; it counts %d", i, sum.later, n.later)
	}
	for _, r := range n.restricted {
		if running := p.countRunning(i, r.upstream); running != r.running {
			return fmt.Errorf("escrow: I7: leaf %d runs %d calls at upstream %d; it counts %d", i, running, r.upstream, r.running)
		}
	}
	if n.inner == nil && n.places != sum.places {
		return fmt.Errorf("escrow: I8: leaf %d has %d places, and counts %d", i, sum.places, n.places)
	}
	if n.doubted < 0 || n.doubted > n.promised || n.promised == 0 && n.doubted != 0 {
		return fmt.Errorf("escrow: I8: below node %d, %d of %d in kept places are doubted", i, n.doubted, n.promised)
	}
	if i != Root && n.weight > 0 && n.stands.rank != n.standing() {
		return fmt.Errorf("escrow: node %d stands at %d, not at %d", i, n.stands.rank, n.standing())
	}
	if n.inner == nil {
		return nil
	}
	busy := int64(0)
	for c := range p.nodes {
		if child := &p.nodes[c]; NodeID(c) != Root && child.parent == i && child.running > 0 {
			busy += child.weight
		}
	}
	if busy != n.busy {
		return fmt.Errorf("escrow: I7: the children of node %d that run calls weigh %d; it counts %d", i, busy, n.busy)
	}
	for r, h := range n.lanes.each() {
		for _, x := range h {
			if c := &p.nodes[x.id]; c.parent != i || c.stands.rank != r {
				return fmt.Errorf("escrow: node %d is in heap %d of node %d, but stands at %d under %d", x.id, r, i, c.stands.rank, c.parent)
			}
			if lane := p.nodes[x.id].stands.lane; n.lanes[lane].heads != p.headsOf(NodeID(x.id)) {
				return fmt.Errorf("escrow: node %d stands with those that may use upstreams %b, and may use %b", x.id, n.lanes[lane].heads, p.headsOf(NodeID(x.id)))
			}
		}
		if err := checkHeap(h, &p.tree, func(id int32) (int32, int64) { return p.nodes[id].stands.at, p.nodes[id].finish }); err != nil {
			return fmt.Errorf("%w of children %d of node %d", err, r, i)
		}
	}
	return nil
}

// checkHeap tests order and positions, given where an item believes to be and by
// which key.
func checkHeap(h heap, k keeper, of func(id int32) (at int32, key int64)) error {
	for i, x := range h {
		if at, key := of(x.id); int(at) != i || key != x.key {
			return fmt.Errorf("escrow: %d is at %d by %d, not at %d by %d, in the heap", x.id, i, x.key, at, key)
		}
		if i > 0 && h.before(x, h[(i-1)/fanout], k) {
			return fmt.Errorf("escrow: out of order at %d of the heap", i)
		}
	}
	return nil
}

// check compares one axis's books with the plans of running calls, in grains, or their holds.
func (a *axisBooks) check(k Axis, held, coming int64) error {
	l, _ := a.booked()
	if a.cal != nil && a.cal.ahead != coming {
		return fmt.Errorf("escrow: I7: running calls plan %d grains, the calendar has %d", coming, a.cal.ahead)
	}
	if l.held != held {
		return fmt.Errorf("escrow: I7: running calls hold %d %s, the ledger %d", held, k, l.held)
	}
	if err := l.check(k); err != nil {
		return err
	}
	if a.pace.level > a.pace.burst && !a.pace.granted {
		return fmt.Errorf("escrow: the level of %s is at %d, above its burst of %d", k, a.pace.level, a.pace.burst)
	}
	return a.pace.ring.check(k)
}

// check tests that the slots, none of which is negative, add up.
func (l *Ledger) check(k Axis) error {
	sum := l.fresh
	if l.fresh < 0 {
		return fmt.Errorf("escrow: I7: the current slot of %s is at %d", k, l.fresh)
	}
	for _, s := range l.slots {
		if s < 0 {
			return fmt.Errorf("escrow: I7: a slot of %s is at %d", k, s)
		}
		sum += s
	}
	if sum != l.booked {
		return fmt.Errorf("escrow: I7: slots of %s sum to %d, booked is %d", k, sum, l.booked)
	}
	return nil
}
