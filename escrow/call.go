package escrow

import "time"

// Call asks for the admission of one call.
type Call struct {
	Leaf NodeID
	// Background calls go after the interactive ones of their leaf, and never take the last
	// Config.InteractiveReserve slots: see Rule.
	Background bool
	// Below is how far its priority is below the highest. Of its leaf's calls of its class those go first that are less far.
	Below int

	// Most is the most that the call may take, which AdmitMax books. Of more than a
	// whole minute, a minute is booked (Pool.Clamp). A pool of Slots alone needs none: it shares them by how long calls have them.
	Most Cost
	// Input is how many of the tokens count as soon as the call starts: those of the
	// prompt.
	Input int64
	// Expect is how many tokens the call will probably take, Input included; 0 is
	// Most.
	Expect int64
	// Fair is how many of Expect count in the leaf's share: not, for one, what a
	// provider has in its cache. The books count it, the tags do not move by it. 0 is
	// all of Expect.
	Fair int64
	// Speed is how many tokens a second it will produce; 0 is all at once.
	Speed int64
	// Run is how long it will probably run; 0 is as long as others did.
	Run time.Duration

	// MaxWait is how long it is ready to wait; 0 is not at all. The owner keeps the
	// time: see Answer.Patience and Pool.Refuse.
	MaxWait time.Duration
	// Claim tells whether it was refused before.
	Claim Claim
	// Via is the upstreams that it may use, in a pool that has Upstreams.
	Via Mask
	// Conversation identifies the calls that the upstreams would rather have together; 0 is none.
	Conversation uint64
}

// Retry is whether a call was offered, and refused, before.
type Retry uint8

// Clients that count their retries say whether they come for the first time; for others it is
// unknown.
const (
	RetryUnknown Retry = iota
	RetryFirst
	RetryAgain
)

// Claim is how a call that comes back is recognised: by its key, which is the same each time and
// nobody else's; or else by its count of retries, and then it takes the first place of its leaf, if
// that is due. A call that gives neither does so, too, but only from the next whole second on:
// callers that were told whole seconds cannot be back before that, so it would be a newcomer taking
// another's place. An unknown key belongs to a newcomer, unless its retries were counted.
type Claim struct {
	Key   uint64 // 0 is none
	Retry Retry
}

// known reports whether the call surely has no other place than the one that it comes back to: a caller
// that asks again and again without saying so would get a place each time.
func (c Claim) known() bool { return c.Key != 0 || c.Retry == RetryFirst }

// Reach is the longest wait for which a call's place is kept.
func (c Claim) Reach() time.Duration { return reachOf(c.known()) }

func reachOf(known bool) time.Duration {
	if known {
		return ticketReach
	}
	return farTurn
}

// Verdict is the outcome of an offer. The zero Verdict is none.
type Verdict int

// An offered call runs, waits, or is refused: for the predicted wait, because
// the leaf's part of the queue is full, or because the whole queue is.
const (
	Admitted Verdict = iota + 1
	Queued
	TooLong
	LeafFull
	PoolFull
)

// Answer is a Verdict with its reasons. When it is Admitted, the rest is zero, but for Upstream.
type Answer struct {
	Verdict Verdict
	// Upstream is where an admitted call goes, in a pool that has Upstreams.
	Upstream int
	// Axis is the axis that the call lacked, or, if it was not its turn, that the head of the
	// queue lacked.
	Axis Axis
	// Behind says that others with an earlier turn wait too, so that it is the
	// leaf's share, not the limit alone, that is exhausted.
	Behind bool
	// Wait is the predicted time until the turn of a refused call. Of a queued one it
	// may be 0, as most are queued without a prediction.
	Wait time.Duration
	// Patience is how long a queued call may wait before its owner withdraws it with
	// Refuse: its MaxWait, or Config.TicketWait if that is longer and it came back in
	// time to a place that was kept.
	Patience time.Duration
	// Ticket says that the place of a refused call is kept for when it comes back
	// after Wait.
	Ticket bool
}

// Handle names a queued or running call. A handle outlives its call safely: a
// late Settle or Cancel finds nothing, and never a stranger's call. The zero Handle
// names none.
//
// Slot is the call's index in the pool's table of calls (not one of Config.Slots):
// small, dense, and used again once the call has ended, so that an owner can keep
// its own data of calls in a slice.
type Handle struct{ Slot, gen uint32 }
