package escrow

import "time"

// Call asks for the admission of one call.
type Call struct {
	Leaf NodeID
	// Background calls go after the interactive ones of their leaf, and leave
	// Config.InteractiveReserve slots free.
	Background bool

	// Most is the most that the call may take: what AdmitMax books.
	Most Cost
	// Input is what of the tokens counts as soon as the call starts.
	Input int64
	// Expect is how many tokens the call will probably take, Input included; 0 is
	// Most.
	Expect int64
	// Speed is how many tokens a second it will produce; 0 is all at once.
	Speed int64
	// Run is how long it will probably run; 0 is as long as others do.
	Run time.Duration

	// MaxWait is how long it is ready to wait.
	MaxWait time.Duration
	// Claim is what tells whether it was refused before.
	Claim Claim
}

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
	// Wait is the predicted time until the turn of a refused call.
	Wait time.Duration
	// Patience is how long a queued call may wait: its MaxWait, or longer when it
	// came back to a place that was kept.
	Patience time.Duration
	// Ticket says that the place of a refused call is kept for when it comes back
	// after Wait.
	Ticket bool
}

// Handle names a queued or running call. A handle outlives its call safely: a
// late Settle or Cancel finds nothing, and never a stranger's call.
type Handle struct{ Slot, gen uint32 }

type entryState uint8

const (
	entryFree entryState = iota
	entryQueued
	entryRunning
	entryTicket
)

// entry is a call from Offer to its end, or the kept place of a refused one. It is
// found by handle, kept in a table and reused with a new generation.
type entry struct {
	gen   uint32
	state entryState
	class rank // interactive or background
	back  bool // it has come back to a kept place
	leaf  NodeID

	next, prev int32 // in its fifo; next free entry when free

	most    Cost
	cost    Cost  // as paced, and booked or held at the dispatch
	expect  int64 // of the tokens
	input   int64
	speed   int64
	run     time.Duration // as expected
	virtual int64         // what the call's turn costs, in tags

	// Of a running call.
	floored    NodeID // whose floor it was served for, or Root
	dispatched time.Time
	slots      Cost                // ring slot of each axis at the dispatch
	eras       [rollingAxes]uint32 // of the books that it is in
	held       int64               // tokens, under Settled
	taken      int64               // tokens, as Progress told: under Production they are booked
	plan       plan                // of the rest, under Production
	first      int64               // calendar slot in which Input was booked

	// Of a ticket.
	promised time.Time
	told     time.Time // the same, in whole seconds from the refusal
	key      uint64
	at       int32 // position among the expiries
}

// alloc takes a free entry, or makes one.
func (t *tree) alloc() int32 {
	if t.free < 0 {
		t.entries = append(t.entries, entry{gen: 1})
		return int32(len(t.entries) - 1)
	}
	i := t.free
	t.free = t.entries[i].next
	return i
}

func (t *tree) release(i int32) {
	e := &t.entries[i]
	*e = entry{gen: e.gen + 1, next: t.free}
	t.free = i
}

// find returns the entry that h names, if it is still in state s.
func (t *tree) find(h Handle, s entryState) (int32, bool) {
	if int(h.Slot) >= len(t.entries) {
		return 0, false
	}
	e := &t.entries[h.Slot]
	return int32(h.Slot), e.gen == h.gen && e.state == s
}

func (t *tree) handle(i int32) Handle { return Handle{Slot: uint32(i), gen: t.entries[i].gen} }

// link puts entry n into a list behind entry after, or first when that is -1.
func (t *tree) link(f *fifo, n, after int32) {
	e := &t.entries[n]
	e.prev = after
	if after >= 0 {
		e.next = t.entries[after].next
		t.entries[after].next = n
	} else {
		e.next, f.head = f.head, n
	}
	if e.next >= 0 {
		t.entries[e.next].prev = n
	} else {
		f.tail = n
	}
}

func (t *tree) unlink(f *fifo, n int32) {
	e := &t.entries[n]
	if e.prev >= 0 {
		t.entries[e.prev].next = e.next
	} else {
		f.head = e.next
	}
	if e.next >= 0 {
		t.entries[e.next].prev = e.prev
	} else {
		f.tail = e.prev
	}
	e.next, e.prev = -1, -1
}

// enqueue lets entry n wait at its leaf.
func (t *tree) enqueue(n int32) {
	e := &t.entries[n]
	e.state = entryQueued
	t.arrive(e.leaf)
	list := &t.nodes[e.leaf].calls[e.class]
	after := list.tail
	if e.back { // it goes before those who have come since
		after = -1
		for next := list.head; next >= 0 && t.entries[next].back; next = t.entries[next].next {
			after = next
		}
	}
	t.link(list, n, after)
	t.count(e, 1)
}

// dequeue takes it out again. Its node is to be restood.
func (t *tree) dequeue(n int32) {
	e := &t.entries[n]
	t.unlink(&t.nodes[e.leaf].calls[e.class], n)
	t.count(e, -1)
	t.nodes[e.leaf].yield(e, 0)
}

// count adds (by = 1) or takes away (by = -1) a queued call, or a ticket, from its
// leaf up, and lets the nodes stand where they then belong.
func (t *tree) count(e *entry, by int64) {
	for i := e.leaf; ; i = t.nodes[i].parent {
		nd := &t.nodes[i]
		nd.backlog += by * e.virtual
		nd.booked[Tokens] += by * e.cost[Tokens]
		nd.booked[Requests] += by * e.cost[Requests]
		if e.state == entryTicket {
			nd.promised += by * e.virtual
		} else {
			nd.queued[e.class] += int32(by)
		}
		if i == Root {
			return
		}
	}
}

// backgroundShare is which part of a leaf's service background calls get at least
// while interactive ones wait: one in so many.
const backgroundShare = 20

// head is the call of leaf i that is next: an interactive one, unless background
// calls have waited for their least share.
func (t *tree) head(i NodeID, open bool) int32 {
	l := &t.nodes[i]
	first, second := l.calls[interactive].head, l.calls[background].head
	switch {
	case second < 0 || !open && first >= 0:
		return first
	case first < 0 || l.yielded >= t.entries[second].virtual*(backgroundShare-1):
		return second
	}
	return first
}

// yield keeps the account of what background calls have let pass.
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
