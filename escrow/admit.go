package escrow

import "time"

// Offer asks for a call. It costs O(depth) when nobody waits and the pool has
// room, O(depth · log children) when the call queues, and a look at up to maxWalk
// nodes more when its wait has to be predicted; under Production, a look at every
// window of the calendar where that is nearly full. When the answer is Queued, call
// Pump; the handle is then reported by some Pump, unless it is cancelled or refused
// first. When the call is refused, the handle names nothing. A refusal leaves the
// pool as it was, but for a kept place.
func (p *Pool) Offer(now time.Time, c Call) (Handle, Answer) {
	p.advance(now)
	e := p.entryOf(&c)
	ticket := p.claimed(&c)
	p.toldOf(c.Leaf).note(&e)
	ans := p.answer(now, &c, &e, ticket)
	switch ans.Verdict {
	case Admitted:
		return p.admit(now, &e, ticket), ans
	case Queued:
		return p.queue(&e, ticket), ans
	}
	if ticket >= 0 {
		p.tell(ticket, ans.Wait)
	}
	if ans.Verdict == TooLong {
		p.expected = max(p.expected, p.back(min(ans.Wait, Window))+lateAfter)
	}
	ans.Ticket = ticket >= 0 || ans.Verdict == TooLong && p.keep(now, &e, c.Claim.Key, ans.Wait)
	p.sentAway(&c, &e, ticket, ans.Ticket)
	if !ans.Ticket && c.Claim.Retry != RetryAgain { // else it was counted when it was refused before
		p.turnAway(&e)
	}
	return Handle{}, ans
}

// Foretell answers as Offer would, for a call without a Claim, and changes nothing.
// Of one that would queue, Wait is the predicted time until its turn.
func (p *Pool) Foretell(now time.Time, c Call) Answer {
	p.advance(now)
	p.looking = true
	defer func() { p.looking = false }()
	e := p.entryOf(&c)
	ans := p.answer(now, &c, &e, -1)
	if ans.Verdict == Queued {
		ans.Wait = p.wait(now, &e)
	}
	return ans
}

func (p *Pool) forecast(now time.Time, e *entry) Answer {
	axis, ok := p.finds(now, e)
	if ok { // it would fit, if it were its turn
		axis = p.blocked
		if axis != Slots && !p.axes[axis].on {
			axis = Slots
		}
	}
	return Answer{Verdict: TooLong, Axis: axis, Behind: p.behind(e.class), Wait: p.promise(now, e)}
}

// answer decides on a call, which may have come back to a ticket.
func (p *Pool) answer(now time.Time, c *Call, e *entry, ticket int32) Answer {
	lacks, fits := p.finds(now, e)
	behind := p.behind(e.class) && (!fits || !p.goesFirst(c.Leaf, e.class) && !p.beside(now, e))
	if fits && !behind {
		return Answer{Verdict: Admitted, Upstream: e.upstream}
	}
	if fits {
		lacks = p.blocked // it would fit, if it were its turn
	}
	ans := Answer{Axis: lacks, Behind: behind, Patience: c.MaxWait}
	p.judge(now, c, e, ticket, &ans)
	return ans
}

// Force starts a call even if the pool has no room for it. Cost beyond the room is debt, which later
// calls wait for. Owners use it for calls that they let go in any case and still want counted. If
// owes, tags move by the call's cost, as they do for every call, so that the leaf has had that much of
// its share. Otherwise they do not move, and the leaf owes nobody a turn afterwards.
func (p *Pool) Force(now time.Time, c Call, owes bool) Handle {
	p.advance(now)
	e := p.entryOf(&c)
	if !owes {
		e.forced = true
		e.virtual = 0
	}
	p.placeAnyhow(now, &e)
	return p.admit(now, &e, -1)
}

// judge decides whether a call that cannot go now queues or is refused, and says in
// ans how long it would wait, or may.
func (p *Pool) judge(now time.Time, c *Call, e *entry, ticket int32, ans *Answer) {
	if ticket >= 0 {
		ans.Wait = max(0, p.entries[ticket].promised.Sub(now))
	}
	if ticket >= 0 && p.asTold(&p.entries[ticket]) { // it is not sent away again
		ans.Patience = max(c.MaxWait, p.cfg.TicketWait)
	} else if c.MaxWait <= 0 || p.tooLong(now, c, e) {
		ans.Verdict = TooLong
		if ticket < 0 { // else its place stays
			ans.Wait = p.promise(now, e)
		}
		return
	}
	ans.Verdict = p.queueRoom(c.Leaf)
	if ans.Verdict != Queued && ans.Wait <= 0 {
		ans.Wait = p.wait(now, e)
	}
}

// tooLong reports whether a call would wait in vain. A prediction errs by some tenth, so it
// refuses nobody who might just be served: not for those who may come yet, nor for how long
// running calls will hold their slots, which is only a guess. Nor for those of its leaf who were told to come later than it may
// wait: who is away is not served, and who comes back goes first. Else callers that hammer, and have hundreds of places within a second,
// leave their leaf with an empty line, and other gateways take that for little demand.
func (p *Pool) tooLong(now time.Time, c *Call, e *entry) bool {
	if p.surely(now, e, c.MaxWait) {
		return false
	}
	rolling, _ := p.predict(now, e, 0, c.MaxWait)
	return rolling > c.MaxWait+c.MaxWait/8
}

// admit starts a call past the queue, and ends the ticket that it came back with.
func (p *Pool) admit(now time.Time, e *entry, ticket int32) Handle {
	p.arrive(e.leaf, e.via)
	p.redeem(e, ticket)
	n := p.put(*e)
	p.charge(e.leaf, e.upstream, e.virtual, p.paces(e), false)
	p.begin(now, n)
	p.restandUp(e.leaf)
	return p.handle(n)
}

// queue lets a call wait, and ends the ticket that it came back with.
func (p *Pool) queue(e *entry, ticket int32) Handle {
	p.arrive(e.leaf, e.via)
	p.redeem(e, ticket)
	n := p.put(*e)
	p.enqueue(n)
	p.restandUp(e.leaf)
	return p.handle(n)
}

// behind reports whether calls wait that a new one of a class must not pass:
// background calls for which no slot is open stand before nobody, nor do those of a node that stands aside.
func (p *Pool) behind(class rank) bool {
	root := &p.nodes[Root]
	return root.ready[interactive] > 0 || root.ready[background] > 0 && (class == background || p.opens())
}

// goesFirst reports whether a new call of leaf i would be served before all that
// wait. They wait because there is too little for the first of them; for
// the new one there is enough. Of equal tags it does not go first.
func (p *Pool) goesFirst(i NodeID, class rank) bool {
	open := p.opens()
	if l := &p.nodes[i]; l.queued[interactive] > 0 || class == background && l.waiting() > 0 || p.dueFloor(open) != Root {
		return false
	}
	for ; i != Root; i = p.nodes[i].parent {
		nd := &p.nodes[i]
		tag := nd.finish
		if nd.able() == 0 {
			tag = p.startTag(i)
		}
		for r, h := range p.nodes[nd.parent].lanes.each() {
			if len(h) > 0 && NodeID(h[0].id) != i && h[0].key <= tag && (r == interactive || open && r == background) {
				return false
			}
		}
	}
	return true
}

// queueRoom bounds queues, and says Queued where there is room: a leaf may queue as
// many calls as places are left free. One greedy leaf gets half the queue, two a
// third each, and whoever comes later finds a place; no share needs to be set aside.
// Joined leaves are as one, and divide its places in the same way.
//
// Source: Choudhury, Hahne, "Dynamic queue length thresholds for shared-memory
// packet switches", IEEE/ACM Transactions on Networking 6(2), 1998.
func (p *Pool) queueRoom(i NodeID) Verdict {
	left := int32(min(int64(p.cfg.MaxQueue), 1<<30)) - p.waiting() - p.paused
	if left <= 0 {
		return PoolFull
	}
	if up := p.counts(i); up != i {
		left -= p.nodes[up].waiting() + p.nodes[up].paused
	}
	if p.nodes[i].waiting()+p.nodes[i].paused >= left {
		return LeafFull
	}
	return Queued
}

// Pause has a call take a place in the queue of a leaf that waits for a time, and for nothing of the pool, until it is to Resume. It answers
// Queued, or PoolFull or LeafFull if there is no place.
func (p *Pool) Pause(leaf NodeID) Verdict {
	v := p.queueRoom(leaf)
	if v == Queued {
		p.pauses(leaf, 1)
	}
	return v
}

// pauses counts by calls more that pause at a leaf.
func (p *Pool) pauses(leaf NodeID, by int32) {
	p.paused += by
	p.nodes[leaf].paused += by
	if up := p.counts(leaf); up != leaf {
		p.nodes[up].paused += by
	}
}

// Resume gives back the place of a call that was to Pause.
func (p *Pool) Resume(leaf NodeID) { p.pauses(leaf, -1) }

// Cancel withdraws a call that still waits. It reports false, and changes nothing,
// when there is no such call any more: it was dispatched, or withdrawn before. Call
// Pump afterwards: another call may head the queue now. O(depth · log children).
func (p *Pool) Cancel(now time.Time, h Handle) bool {
	n, ok := p.find(h, entryQueued)
	if !ok {
		return false
	}
	p.advance(now)
	p.leave(&p.entries[n])
	p.withdraw(n)
	return true
}

// withdraw takes a queued call away.
func (p *Pool) withdraw(n int32) {
	leaf := p.entries[n].leaf
	p.dequeue(n)
	p.release(n)
	p.restandUp(leaf)
	p.noteIdle()
}

// Refuse withdraws a call that has waited as long as it may, and answers when its
// turn will come; its place is kept, under key if that is not 0 (Claim.Key), if that
// is soon. It reports false, and changes nothing, when there is no such call any
// more. Call Pump afterwards.
func (p *Pool) Refuse(now time.Time, h Handle, key uint64) (Answer, bool) {
	n, ok := p.find(h, entryQueued)
	if !ok {
		return Answer{}, false
	}
	p.advance(now)
	e := p.entries[n] // a copy: withdraw frees the entry
	p.withdraw(n)
	e.next = -1
	e.prev = -1
	if e.known && e.turn.IsZero() {
		e.turn = now // later callers do not go before it
	}
	ans := p.forecast(now, &e)
	ans.Ticket = p.keep(now, &e, key, ans.Wait)
	if !ans.Ticket {
		p.turnAway(&e)
	}
	return ans, true
}
