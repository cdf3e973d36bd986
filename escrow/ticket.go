package escrow

import "time"

// A ticket is the kept place of a refused call. It keeps the tag that the call had, but no
// capacity: holding tokens for an absent caller would idle 1.7 % of the pool for every
// second of it. Only calls that are present are served. A call that comes back when it was told
// queues with the old tag, even if it is not ready to wait, if its turn comes within
// Config.TicketWait; one that does not come back has cost nothing. One that comes back and has to be refused again keeps
// its turn: it goes before those of its leaf that were promised later times. One that comes early waits, if it may, behind those
// that are there.

const (
	// ticketReach is the longest promise for which a place is kept: no client waits longer.
	ticketReach = 20 * time.Minute
	// TicketGrace is how long after the promised time a place is kept.
	TicketGrace = 6 * time.Second
	// ticketEarly bounds how much sooner than told a caller may be that has come as told, and ticketEarlyPart is which part of
	// the wait that is at most.
	ticketEarly     = time.Second / 2
	ticketEarlyPart = 16

	// LongestTold is the longest time that a refusal tells its caller to stay away: OpenAI's libraries, the AI SDK and Claude Code
	// give up at a minute and more, or ignore it and come back at once. Whoever comes back then, before a turn that is later, is told
	// the rest, and keeps the place.
	LongestTold = time.Minute - time.Millisecond
)

// tickets are all kept places of a pool, by when they end and by key. Those of a leaf are in
// leaf.tickets.
type tickets struct {
	ends  heap             // by promised + TicketGrace, in µs of the pool
	byKey map[uint64]int32 // entries of those with a key
}

// ticketOrder is the pool as the keeper of the heap of ends.
type ticketOrder Pool

func (p *ticketOrder) moved(id int32, at int) { p.entries[id].at = int32(at) }
func (p *ticketOrder) tie(a, b int32) bool    { return a < b }

// claimed is the ticket with which a call comes back; -1 if it has none.
func (p *Pool) claimed(c *Call) int32 {
	if len(p.tickets.ends) == 0 {
		return -1
	}
	retry := c.Claim.Retry
	if c.Claim.Key != 0 {
		if n, ok := p.tickets.byKey[c.Claim.Key]; ok && p.entries[n].leaf == c.Leaf {
			return n
		}
		if retry == RetryUnknown {
			retry = RetryFirst
		}
	}
	if retry == RetryFirst {
		return -1
	}
	left := maxWalk
	for n := p.nodes[c.Leaf].tickets.head; n >= 0 && left > 0; n = p.entries[n].next {
		left--
		due := p.entries[n].due
		if retry == RetryUnknown {
			due = p.entries[n].told
		}
		if due <= p.now {
			return n
		}
	}
	return -1
}

// asTold says that a caller that comes to ticket t now was told to, for a turn within the time that it may then wait.
func (p *Pool) asTold(t *entry) bool {
	return t.due <= p.now && p.micros(t.promised)-p.now <= int64(p.cfg.TicketWait/time.Microsecond)
}

// tell notes that the caller of ticket n is told to come back after wait.
func (p *Pool) tell(n int32, wait time.Duration) {
	_, due := Told(wait)
	p.entries[n].told = p.back(wait)
	p.entries[n].due = p.now + int64(due/time.Microsecond)
}

// back is the time at which a caller comes back if it is told now to wait, in µs of the pool.
func (p *Pool) back(wait time.Duration) int64 {
	whole, _ := Told(wait)
	return p.now + int64(whole/time.Microsecond)
}

// Told is how long a caller stays away that is told to wait, in whole seconds as Retry-After has it, and after which time it
// has come as told.
func Told(wait time.Duration) (whole, due time.Duration) {
	wait = min(wait, LongestTold)
	return (wait + time.Second - 1).Truncate(time.Second), wait - min(wait/ticketEarlyPart, ticketEarly)
}

// micros is a time in µs of the pool, as heaps hold it.
func (p *Pool) micros(t time.Time) int64 { return int64(t.Sub(p.start) / time.Microsecond) }

// keep gives a refused call a ticket, if there is room: a leaf may have as many as are left free.
func (p *Pool) keep(now time.Time, e *entry, key uint64, wait time.Duration) bool {
	free := p.cfg.MaxQueue - len(p.tickets.ends)
	if p.cfg.TicketWait <= 0 || wait > reachOf(e.known) || int(p.nodes[e.leaf].places) >= free {
		return false
	}
	if _, taken := p.tickets.byKey[key]; taken && key != 0 {
		return false // two calls at once under one key: the first has the place
	}
	p.arrive(e.leaf, e.via)
	n := p.put(*e)
	t := &p.entries[n]
	t.state = entryTicket
	t.promised = now.Add(wait)
	t.key = key
	p.tell(n, wait)
	t.length = lengthOf(wait)
	if p.nodes[e.leaf].patience == nil {
		p.nodes[e.leaf].patience = &patience{}
	}
	if t.turn.IsZero() {
		t.turn = t.promised
	}
	if key != 0 {
		if p.tickets.byKey == nil {
			p.tickets.byKey = make(map[uint64]int32)
		}
		p.tickets.byKey[key] = n
	}
	list := &p.nodes[e.leaf].tickets
	after := list.tail
	for after >= 0 && p.entries[after].promised.After(t.promised) {
		after = p.entries[after].prev
	}
	p.link(list, n, after)
	p.tickets.ends.push(item{p.micros(t.promised.Add(TicketGrace)), n}, (*ticketOrder)(p))
	p.nodes[e.leaf].places++
	p.count(t, 1)
	p.restandUp(e.leaf)
	return true
}

// redeem ends ticket n, if there is one, as its call e has come: with it comes back
// the distance that its leaf, and those above, were moved past its place, at most its own cost.
// So a kept place helps whom it was kept for, and nobody else.
func (p *Pool) redeem(e *entry, n int32) {
	if n < 0 {
		return
	}
	t := &p.entries[n]
	e.back = p.asTold(t)
	e.known = true
	e.turn = t.turn
	e.length = t.length
	e.asked.at = t.asked.at
	for i := t.leaf; i != Root; i = p.nodes[i].parent {
		nd := &p.nodes[i]
		back := min(nd.passed, nd.over(t.virtual))
		nd.finish -= back
		nd.passed -= back
	}
	p.drop(n)
}

// drop ends ticket n. The distance that its nodes were moved past it, beyond that which the places that
// are left may take back, is lost.
func (p *Pool) drop(n int32) {
	e := &p.entries[n]
	leaf := e.leaf
	p.tickets.ends.remove(int(e.at), (*ticketOrder)(p))
	if e.key != 0 {
		delete(p.tickets.byKey, e.key)
	}
	p.unlink(&p.nodes[leaf].tickets, n)
	p.nodes[leaf].places--
	p.count(e, -1)
	p.release(n)
	for i := leaf; i != Root; i = p.nodes[i].parent {
		nd := &p.nodes[i]
		nd.passed = min(nd.passed, nd.over(nd.promised))
	}
	p.restandUp(leaf)
}

// expire ends the tickets that nobody came for.
func (p *Pool) expire() {
	for ends := &p.tickets.ends; len(*ends) > 0 && (*ends)[0].key <= p.now; {
		e := &p.entries[(*ends)[0].id]
		p.leave(e)
		p.drop((*ends)[0].id)
	}
}

// Tickets is how many places are kept.
func (p *Pool) Tickets() int { return len(p.tickets.ends) }

// TicketsDue is of how many of them the promised time has come, as of the last verb
// that took a time. O(tickets).
func (p *Pool) TicketsDue() int {
	n := 0
	for _, x := range p.tickets.ends {
		if x.key-int64(TicketGrace/time.Microsecond) <= p.now {
			n++
		}
	}
	return n
}
