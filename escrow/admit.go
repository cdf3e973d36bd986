package escrow

import "time"

// Verdict is what became of an offer.
type Verdict int

// An offered call runs, waits, or is refused: for the predicted wait, because
// the leaf's part of the queue is full, or because the whole queue is.
const (
	Admitted Verdict = iota
	Queued
	TooLong
	LeafFull
	PoolFull
)

// Answer is a Verdict with its reasons.
type Answer struct {
	Verdict Verdict
	// Axis is what the call lacked.
	Axis Axis
	// Behind says that others with an earlier turn wait too, so that it is the
	// leaf's share, not the limit alone, that is exhausted.
	Behind bool
	// Wait is the predicted time until the call's turn.
	Wait time.Duration
}

// Offer asks for a call of cost c on a leaf, willing to wait up to maxWait. It
// costs O(1) when nobody waits and the pool has room; O(log leaves) else. When
// the answer is Queued, call Pump; the handle is then reported by some Pump,
// unless it is cancelled first. A refusal leaves the pool as it was.
func (p *Pool) Offer(now time.Time, i LeafID, c Cost, maxWait time.Duration) (Handle, Answer) {
	p.advance(now)
	c = p.Clamp(c)

	lacks, ok := p.fits(c)
	if ok && p.q.waiting == 0 {
		e := p.alloc()
		p.entries[e].leaf, p.entries[e].cost = i, c
		p.q.start(i, p.lead())
		p.dispatch(now, e)
		return p.handle(e), Answer{Verdict: Admitted}
	}

	ans := Answer{Verdict: Queued, Axis: lacks, Behind: p.q.waiting > 0}
	if ok {
		ans.Axis = p.blocked // it would fit, if it were its turn
	}
	rolling, slot := p.predict(now, i, c)
	ans.Wait = max(rolling, slot)
	// How long running calls will hold their slots is only a guess, so it
	// refuses nobody who is ready to wait.
	if maxWait <= 0 || rolling > maxWait {
		ans.Verdict = TooLong
		return Handle{}, ans
	}
	if ans.Verdict = p.queueRoom(i); ans.Verdict != Queued {
		return Handle{}, ans
	}
	return p.enqueue(i, c), ans
}

// queueRoom bounds queues: a leaf may queue as many calls as places are left
// free. One greedy leaf gets half the queue, two a third each, and whoever
// comes later finds a place; no share needs to be set aside.
//
// Source: Choudhury, Hahne, "Dynamic queue length thresholds for shared-memory
// packet switches", IEEE/ACM Transactions on Networking 6(2), 1998.
func (p *Pool) queueRoom(i LeafID) Verdict {
	left := p.cfg.MaxQueue - p.q.waiting
	switch {
	case left <= 0:
		return PoolFull
	case p.q.leaves[i].queued >= left:
		return LeafFull
	}
	return Queued
}

// enqueue appends a call to its leaf's FIFO.
func (p *Pool) enqueue(i LeafID, c Cost) Handle {
	n := p.alloc()
	e := &p.entries[n]
	e.state, e.leaf, e.cost, e.next, e.prev = entryQueued, i, c, -1, -1

	l := &p.q.leaves[i]
	if l.queued == 0 {
		l.head, l.tail = n, n
		p.q.start(i, p.lead())
	} else {
		e.prev = l.tail
		p.entries[l.tail].next = n
		l.tail = n
	}
	p.count(l, c, 1)
	p.q.resort(i)
	return p.handle(n)
}

// unlink takes entry n out of its leaf's FIFO. The leaf is to be resorted.
func (p *Pool) unlink(n int32) {
	e := &p.entries[n]
	l := &p.q.leaves[e.leaf]
	if e.prev >= 0 {
		p.entries[e.prev].next = e.next
	} else {
		l.head = e.next
	}
	if e.next >= 0 {
		p.entries[e.next].prev = e.prev
	} else {
		l.tail = e.prev
	}
	p.count(l, e.cost, -1)
}

// count adds (by = 1) or takes away (by = -1) one queued call of cost c.
func (p *Pool) count(l *leaf, c Cost, by int64) {
	l.queued += int(by)
	l.backlog += by * p.virtualCost(c)
	p.q.waiting += int(by)
	p.queued[Tokens] += by * c[Tokens]
	p.queued[Requests] += by * c[Requests]
}

// Cancel withdraws a call that still waits. It reports false when there is no
// such call any more: it was dispatched, or withdrawn before.
func (p *Pool) Cancel(now time.Time, h Handle) bool {
	n, ok := p.find(h, entryQueued)
	if !ok {
		return false
	}
	p.advance(now)
	p.unlink(n)
	p.q.resort(p.entries[n].leaf)
	p.release(n)
	return true
}

// Pump dispatches what may go now, appends the handles to out, and returns it.
// The head of the queue is never bypassed, or large calls would starve behind
// small ones.
func (p *Pool) Pump(now time.Time, out []Handle) []Handle {
	p.advance(now)
	p.next = time.Time{}
	for {
		i, ok := p.q.first()
		if !ok {
			return out
		}
		n := p.q.leaves[i].head
		lacks, ok := p.fits(p.entries[n].cost)
		if !ok {
			p.blocked = lacks
			p.next = p.headReadyAt(p.entries[n].cost)
			return out
		}
		p.unlink(n)
		p.dispatch(now, n)
		p.q.resort(i)
		out = append(out, p.handle(n))
	}
}

// headReadyAt is when to look again for a head of cost c that did not fit. The
// zero time means: only when something is settled or cancelled.
func (p *Pool) headReadyAt(c Cost) time.Time {
	var at time.Time
	for k := range p.axes {
		a := &p.axes[k]
		if !a.on {
			continue
		}
		if t := a.pace.readyAt(a.pace.need(c[k])); t.After(at) {
			at = t
		}
		if a.ledger.Room() >= c[k] {
			continue
		}
		t, known := a.ledger.FreeAt(c[k])
		if !known {
			return time.Time{}
		}
		if t.After(at) {
			at = t
		}
	}
	if p.cfg.Slots > 0 && p.running >= p.cfg.Slots {
		return time.Time{}
	}
	return at
}

// Next is when Pump should be called again, if nothing else happens; false
// when only a Settle, a Produce, a Cancel or an Offer can change anything.
func (p *Pool) Next() (time.Time, bool) { return p.next, !p.next.IsZero() }

// dispatch books entry n and starts it.
func (p *Pool) dispatch(now time.Time, n int32) {
	e := &p.entries[n]
	l := &p.q.leaves[e.leaf]
	e.charged = l.expected(p.virtualCost(e.cost))
	e.due = e.cost[Tokens] - min(e.cost[Tokens], mulDivCeil(e.cost[Tokens], l.ratio, wholeRatio))
	p.due += e.due
	p.q.charge(e.leaf, e.charged)
	for k := range p.axes {
		a := &p.axes[k]
		if !a.on {
			continue
		}
		a.pace.take(e.cost[k], e.expected(Axis(k)))
		a.pace.ring.Book(e.cost[k])
		e.slots[k] = a.pace.ring.Slot()
		if a.ledger != a.pace.ring {
			a.ledger.Hold(e.cost[k])
		}
	}
	e.state, e.next, e.prev, e.dispatched = entryRunning, -1, -1, now
	p.running++
}
