package escrow

import "fmt"

// Check tests the invariants that a state can show. Tests, fuzzers and the
// simulator call it after every step; it costs O(everything).
func (p *Pool) Check() error {
	if err := p.checkQueue(); err != nil {
		return err
	}
	var running int64
	var held, queued Cost
	due := int64(0)
	for i := range p.entries {
		switch e := &p.entries[i]; e.state {
		case entryRunning:
			running++
			held[Tokens] += max(0, e.cost[Tokens]-e.produced)
			held[Requests] += e.cost[Requests]
			due += e.due
		case entryQueued:
			queued[Tokens] += e.cost[Tokens]
			queued[Requests] += e.cost[Requests]
		}
	}
	if running != p.running || due != p.due {
		return fmt.Errorf("escrow: I7: %d calls run and %d tokens are due back, the pool counts %d and %d", running, due, p.running, p.due)
	}
	if queued != p.queued {
		return fmt.Errorf("escrow: I7: %v queued, the pool counts %v", queued, p.queued)
	}
	for k := range p.axes {
		if a := &p.axes[k]; a.on {
			if err := a.check(Axis(k), held[k]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *axisState) check(k Axis, held int64) error {
	if a.ledger == a.pace.ring {
		held = 0 // booked at admission
	}
	if a.ledger.held != held {
		return fmt.Errorf("escrow: I7: running calls hold %d %s, the ledger %d", held, k, a.ledger.held)
	}
	for _, l := range [...]*Ledger{a.ledger, a.pace.ring} {
		sum := int64(0)
		for _, s := range l.slots {
			if s < 0 {
				return fmt.Errorf("escrow: I7: a slot of %s is at %d", k, s)
			}
			sum += s
		}
		if sum != l.booked {
			return fmt.Errorf("escrow: I7: slots of %s sum to %d, booked is %d", k, sum, l.booked)
		}
	}
	if a.pace.level > a.pace.cap {
		return fmt.Errorf("escrow: the level of %s is at %d, above its burst of %d", k, a.pace.level, a.pace.cap)
	}
	return nil
}

func (p *Pool) checkQueue() error {
	waiting, weights := 0, Weight(0)
	for i := range p.q.leaves {
		l := &p.q.leaves[i]
		n, backlog := 0, int64(0)
		if l.queued > 0 {
			for e := l.head; e >= 0; e = p.entries[e].next {
				n++
				backlog += p.virtualCost(p.entries[e].cost)
			}
			weights += l.weight
		}
		if n != l.queued || backlog != l.backlog || (l.at >= 0) != (n > 0) {
			return fmt.Errorf("escrow: I7: leaf %d queues %d of cost %d, counts %d of cost %d, heap %d", i, n, backlog, l.queued, l.backlog, l.at)
		}
		waiting += n
	}
	if waiting != p.q.waiting || weights != p.q.weights {
		return fmt.Errorf("escrow: I7: %d wait with weight %d, the queue counts %d with %d", waiting, weights, p.q.waiting, p.q.weights)
	}
	for at, i := range p.q.heap {
		if p.q.leaves[i].at != at {
			return fmt.Errorf("escrow: leaf %d is at %d in the heap, not at %d", i, p.q.leaves[i].at, at)
		}
		if at > 0 && p.q.less(i, p.q.heap[(at-1)/2]) {
			return fmt.Errorf("escrow: the heap is out of order at %d", at)
		}
	}
	return nil
}
