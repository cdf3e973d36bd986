package escrow

import "time"

// Offer asks for a call. It costs O(depth) when nobody waits and the pool has
// room; O(depth · log children) else. When the answer is Queued, call Pump; the
// handle is then reported by some Pump, unless it is cancelled or refused first. A
// refusal leaves the pool as it was, but for a kept place.
func (p *Pool) Offer(now time.Time, c Call) (Handle, Answer) {
	p.advance(now)
	e := p.entryOf(&c)
	ticket := p.claimed(&c)

	lacks, fits := p.fits(now, &e)
	behind := p.behind(e.class) && (!fits || !p.first(c.Leaf, e.class))
	if fits && !behind {
		p.arrive(c.Leaf)
		p.redeem(ticket)
		n := p.put(e)
		p.charge(c.Leaf, e.virtual, false)
		p.begin(now, n)
		p.restandUp(c.Leaf)
		return p.handle(n), Answer{Verdict: Admitted}
	}

	ans := Answer{Verdict: Queued, Axis: lacks, Behind: behind, Patience: c.MaxWait}
	if fits {
		ans.Axis = p.blocked // it would fit, if it were its turn
	}
	if ticket >= 0 {
		if left := p.entries[ticket].promised.Sub(now); left > 0 {
			ans.Wait = left
			if c.MaxWait <= 0 {
				ans.Verdict, ans.Ticket = TooLong, true // it is early; its place stays
				return Handle{}, ans
			}
		} else {
			ans.Patience = max(c.MaxWait, p.cfg.TicketWait)
		}
	}
	if due := ticket >= 0 && ans.Wait == 0; !due && !p.surely(now, &e, c.MaxWait) {
		// A prediction errs by some tenth, so it refuses nobody who might just be
		// served. And how long running calls will hold their slots is only a guess: it
		// refuses nobody at all who is ready to wait.
		rolling, slot := p.predict(now, &e)
		if ans.Wait = max(rolling, slot); c.MaxWait <= 0 || rolling > c.MaxWait+c.MaxWait/8 {
			ans.Verdict = TooLong
			if ans.Ticket = ticket >= 0; !ans.Ticket {
				ans.Ticket = p.keep(now, &e, c.Claim.Key, ans.Wait)
			}
			return Handle{}, ans
		}
	}
	if ans.Verdict = p.queueRoom(c.Leaf); ans.Verdict != Queued {
		if ans.Ticket = ticket >= 0; ans.Wait <= 0 {
			rolling, slot := p.predict(now, &e)
			ans.Wait = max(rolling, slot)
		}
		return Handle{}, ans
	}
	p.arrive(c.Leaf)
	p.redeem(ticket)
	e.back = ticket >= 0
	n := p.put(e)
	p.enqueue(n)
	p.restandUp(c.Leaf)
	return p.handle(n), ans
}

// put stores a new entry.
func (p *Pool) put(e entry) int32 {
	n := p.alloc()
	e.gen = p.entries[n].gen
	p.entries[n] = e
	return n
}

// behind reports whether calls wait that a new one of a class must not pass:
// background calls for which no slot is open stand before nobody.
func (p *Pool) behind(class rank) bool {
	root := &p.nodes[Root]
	return root.queued[interactive] > 0 || root.queued[background] > 0 && (class == background || p.hasSlot(background))
}

// first reports whether a new call of leaf i would be served next, before all that
// wait. They wait because what is there does not suffice for the first of them; for
// the new one it does.
func (p *Pool) first(i NodeID, class rank) bool {
	open := p.hasSlot(background)
	if l := &p.nodes[i]; l.queued[interactive] > 0 || class == background && l.waiting() > 0 || p.dueFloor(open) != Root {
		return false
	}
	for ; i != Root; i = p.nodes[i].parent {
		nd := &p.nodes[i]
		tag := nd.finish
		if nd.waiting() == 0 {
			tag = p.startTag(i)
		}
		for r, h := range p.nodes[nd.parent].heaps[:classes] {
			if len(h) > 0 && NodeID(h[0].id) != i && h[0].key <= tag && (open || rank(r) == interactive) {
				return false
			}
		}
	}
	return true
}

// queueRoom bounds queues: a leaf may queue as many calls as places are left
// free. One greedy leaf gets half the queue, two a third each, and whoever
// comes later finds a place; no share needs to be set aside.
//
// Source: Choudhury, Hahne, "Dynamic queue length thresholds for shared-memory
// packet switches", IEEE/ACM Transactions on Networking 6(2), 1998.
func (p *Pool) queueRoom(i NodeID) Verdict {
	left := int32(min(int64(p.cfg.MaxQueue), 1<<30)) - p.waiting()
	switch {
	case left <= 0:
		return PoolFull
	case p.nodes[i].waiting() >= left:
		return LeafFull
	}
	return Queued
}

// Cancel withdraws a call that still waits. It reports false when there is no
// such call any more: it was dispatched, or withdrawn before.
func (p *Pool) Cancel(now time.Time, h Handle) bool {
	n, ok := p.find(h, entryQueued)
	if !ok {
		return false
	}
	p.advance(now)
	leaf := p.entries[n].leaf
	p.dequeue(n)
	p.release(n)
	p.restandUp(leaf)
	p.rest()
	return true
}

// Refuse withdraws a call that has waited as long as it may, and answers when its
// turn will come; its place is kept if that is soon. It reports false when there
// is no such call any more.
func (p *Pool) Refuse(now time.Time, h Handle, key uint64) (Answer, bool) {
	n, ok := p.find(h, entryQueued)
	if !ok {
		return Answer{}, false
	}
	p.advance(now)
	e := p.entries[n]
	p.Cancel(now, h)
	e.next, e.prev = -1, -1
	ans := p.forecast(now, &e)
	ans.Ticket = p.keep(now, &e, key, ans.Wait)
	return ans, true
}

// Pump dispatches what may go now, appends the handles to out, and returns it.
// The head of the queue is never bypassed, or large calls would starve behind
// small ones.
func (p *Pool) Pump(now time.Time, out []Handle) []Handle {
	p.advance(now)
	p.wake = time.Time{}
	for {
		open := p.hasSlot(background)
		leaf, floored, ok := p.next(open)
		if !ok {
			if p.waiting() > 0 {
				p.blocked = Slots
			}
			return out
		}
		n := p.head(leaf, open)
		e := &p.entries[n]
		lacks, ok := p.fits(now, e)
		if !ok {
			p.blocked = lacks
			p.wake = p.headReadyAt(now, e)
			return out
		}
		p.dequeue(n)
		p.charge(leaf, e.virtual, open)
		p.nodes[leaf].yield(e, e.virtual)
		e.floored = floored
		p.payFloor(floored, e.virtual)
		p.begin(now, n)
		p.restandUp(leaf)
		out = append(out, p.handle(n))
	}
}

// headReadyAt is when to look again for a head that did not fit. The zero time
// means: only when something is settled or cancelled.
func (p *Pool) headReadyAt(now time.Time, e *entry) time.Time {
	if !p.hasSlot(e.class) {
		return time.Time{}
	}
	var at time.Time
	for k := range p.axes {
		a := &p.axes[k]
		if !a.on {
			continue
		}
		at = later(at, a.pace.readyAt(a.pace.need(e.cost[k])))
		switch {
		case a.hasRoom(now, e, e.cost[k]):
		case a.cal != nil:
			at = later(at, a.cal.ledger.startOf(a.cal.ledger.cur+1))
		default:
			t, known := a.ledger.FreeAt(e.cost[k])
			if !known {
				return time.Time{}
			}
			at = later(at, t)
		}
	}
	return at
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Next is when Pump should be called again, if nothing else happens; false
// when only a Settle, a Progress, a Cancel or an Offer can change anything.
func (p *Pool) Next() (time.Time, bool) { return p.wake, !p.wake.IsZero() }

// begin books entry n and starts it.
func (p *Pool) begin(now time.Time, n int32) {
	e := &p.entries[n]
	e.state, e.next, e.prev, e.dispatched = entryRunning, -1, -1, now
	p.running++
	p.due += e.due()
	for k := range p.axes {
		a := &p.axes[k]
		if !a.on {
			continue
		}
		e.eras[k] = a.era
		a.pace.take(e.cost[k], e.expected(Axis(k)))
		a.pace.ring.Book(e.cost[k])
		e.slots[k] = a.pace.ring.Slot()
		switch {
		case a.cal != nil:
			a.cal.ledger.Book(e.input * grain)
			e.taken, e.first = e.input, a.cal.ledger.cur
			e.plan = a.cal.lay(now, (e.expect-e.input)*grain, e.grains())
		case a.ledger != a.pace.ring:
			a.ledger.Hold(e.cost[k])
			e.held = e.cost[k]
		}
	}
}

// expected is what of a call's cost it will probably take.
func (e *entry) expected(k Axis) int64 {
	if k == Tokens {
		return e.expect
	}
	return e.cost[k]
}

// due is how many tokens the call will probably give back.
func (e *entry) due() int64 { return e.cost[Tokens] - e.expect }
