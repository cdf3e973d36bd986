package escrow

import "time"

// Pump dispatches the calls that may go now, appends the handles to out, in order, and
// returns it. Each costs O(depth · log children). The head of the queue is never
// bypassed, or large calls would starve behind small ones.
func (p *Pool) Pump(now time.Time, out []Handle) []Handle {
	p.advance(now)
	p.wake = time.Time{}
	p.first = Cost{}
	p.letReturn()
	p.passed = 0
	p.parked = false
	p.findStuck(now)
	defer p.endPump()
	for {
		reserved := p.reserved(Root)
		p.park(reserved)
		open := reserved == nil
		leaf, floored, ok := p.next(open)
		if !ok {
			if p.waiting() > 0 {
				p.blocked = Slots
				p.parked = true
			}
			return out
		}
		n := p.head(leaf, open)
		e := &p.entries[n]
		if p.clearAway(e, floored) {
			continue
		}
		lacks, ok := p.fits(now, e)
		if !ok {
			p.blocked = lacks
			if lacks != Slots || e.class == interactive {
				p.first = e.cost
			}
			if lacks != Slots {
				p.idle[lacks].largest = max(p.idle[lacks].largest, e.cost[lacks])
			}
			p.wakeAt(p.headReadyAt(now, e))
			p.passed = everywhere
			return out
		}
		if !p.place(now, e, p.passed) {
			lacks, at := p.lackThere(now, e)
			p.blocked = lacks
			p.wakeAt(at)
			p.wakeAt(p.liftsAt(leaf))
			if p.passOver(e) {
				continue
			}
			return out
		}
		n = p.preferHome(now, n)
		e = &p.entries[n]
		p.dequeue(n)
		paced := p.paces(e)
		p.charge(leaf, e.upstream, e.virtual, paced, open)
		p.nodes[leaf].yield(e, e.virtual)
		e.floored = floored
		p.payFloor(floored, paced)
		p.begin(now, n)
		p.restandUp(leaf)
		out = append(out, p.handle(n))
	}
}

// endPump shows what was hidden, and notes what the next Pump has to know.
func (p *Pool) endPump() {
	p.showAll()
	p.crowded = p.running >= p.slots
}

// wakeAt has Pump called at a time, or earlier; the zero time says nothing.
func (p *Pool) wakeAt(at time.Time) {
	if !at.IsZero() && (p.wake.IsZero() || at.Before(p.wake)) {
		p.wake = at
	}
}

// headReadyAt is when to look again for a head that did not fit. The zero time
// means: only when something is settled or cancelled.
func (p *Pool) headReadyAt(now time.Time, e *entry) time.Time {
	if by, _ := p.keptBy(e.leaf, e.class, e); by != nil || !p.Free() {
		return time.Time{}
	}
	at := p.held
	for k := range p.axes {
		a := &p.axes[k]
		if !a.on {
			continue
		}
		at = later(at, a.pace.readyAt(a.pace.need(e.cost[k])))
		if a.hasRoom(now, e) {
			continue
		}
		t, known := a.roomAt(e)
		if !known {
			return time.Time{}
		}
		at = later(at, t)
	}
	return at
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Next is when Pump should be called again, if nothing else happens, as of the last
// Pump; false when nobody waits, or when only another verb can change anything. It
// may be early: then Pump dispatches nothing, and there is a new Next.
func (p *Pool) Next() (time.Time, bool) { return p.wake, !p.wake.IsZero() }
