package escrow

import "time"

// entryState is the stage at which an entry of the table is.
type entryState uint8

const (
	entryFree entryState = iota
	entryQueued
	entryRunning
	entryTicket
)

// entry is a call from Offer to its end, or the kept place (a ticket) of a refused
// one. It is kept in a table, found by handle, and reused with a new generation.
type entry struct {
	gen   uint32
	state entryState
	class rank // interactive or background
	back  bool // it has come back to a kept place as it was told
	below int8 // Call.Below
	// passed is how many calls went before it that had come later: see preferHome.
	passed uint8
	// forced says that it was started out of turn, and moves no tags: see Force.
	forced bool
	leaf   NodeID

	next, prev int32 // in its entryList, -1 at the ends; the next free entry of a free one

	// As it was offered: see Call.
	most    Cost
	asked   struct{ expect, input, fair, at int64 } // tokens; and when, in µs of the pool
	speed   int64                                   // tokens a second
	run     time.Duration
	maxWait time.Duration
	known   bool   // whether it has no other place: see Claim.known
	may     Mask   // Call.Via
	of      uint64 // Call.Conversation

	// As it was weighed.
	expect  int64 // tokens
	input   int64 // of these
	fair    int64 // those of them that count in the share
	cost    Cost  // in the pace and the ledger
	virtual int64 // by which it moves tags, at weight 1
	via     Mask  // those of may that can take it at all

	// Of a running call.
	floored    NodeID // whose floor it was served for, or Root
	dispatched time.Time
	mark       int64 // Pool.mark then
	raised     int64 // of virtual, since then
	books      [Rolling]inBooks
	upstream   int  // as place chose it; -1 if it has left the list
	elsewhere  Cost // tokens that it took of upstreams that it has left

	// Of a ticket, and of a call that has come back to one.
	length uint8     // of the promise: see patience
	turn   time.Time // the first promise, by which calls of a leaf that come back are ordered

	// Of a ticket.
	promised time.Time // when its call was told to come
	told     int64     // when its caller was last told to come, in whole seconds from then, in µs of the pool; see Pool.tell
	due      int64     // from when on it has come as told, in µs of the pool
	key      uint64    // Claim.Key, 0 for none
	at       int32     // position in tickets.ends
}

// inBooks is where a running call stands in the books of one axis.
type inBooks struct {
	era   uint32 // of the books
	slot  int64  // of the ring of dispatches in which it was booked
	held  int64  // in a ledger that is apart
	taken int64  // booked in a calendar
	plan  plan   // of the rest, in a calendar
	begun int64  // slot of the calendar in which its input was booked
}

// put stores a new entry.
func (t *tree) put(e entry) int32 {
	n := t.alloc()
	e.gen = t.entries[n].gen
	t.entries[n] = e
	return n
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

// release frees an entry, so that no handle finds it any more.
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
