package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/lengths"
	"github.com/llmgov/llmgov/escrow/slots"
)

// leaseState is the state of a queued or running call beside the books of the escrow.
type leaseState struct {
	*seat  // its tenant's; nil if there is no call
	id     string
	holds  *holds
	input  int64
	course course
	waiter *waiter // nil once it is dispatched
	stream bool
	// interrupt is Request.Interrupt.
	interrupt Interrupter
	since     time.Time // its dispatch or, while it waits, its arrival
	output    int64     // tokens, as told by Progress
	flowed    time.Time // when the first token was told of; zero before
	early     int64     // the output that was told of then

	// For a limiter that learns from the call: whether the call is background, and the state of
	// the pool at its dispatch.
	background bool
	sight      slots.Sight
}

// flowing reports whether the first token was produced.
func (st *leaseState) flowing() bool { return !st.flowed.IsZero() }

// used is how many tokens a call has taken so far.
func (st *leaseState) used() int64 {
	if !st.flowing() {
		return 0
	}
	return st.input + st.output
}

// stateOf returns the state of the call with a handle.
func (p *pool) stateOf(h escrow.Handle) *leaseState {
	for int(h.Slot) >= len(p.leases) {
		p.leases = append(p.leases, leaseState{})
	}
	return &p.leases[h.Slot]
}

// taking is the actual cost of an ended call: on the pool's limits, in its tenant's share, and in tokens.
type taking struct {
	cost  escrow.Cost
	fair  int64
	usage Usage
	whole bool // it came to its own end
}

// end settles a call in the escrow, learns from it, and returns its state, which it clears.
// It reports false if the call has ended before.
func (p *pool) end(now time.Time, h escrow.Handle, took taking) (st leaseState, ok bool) {
	if !p.escrow.SettleFair(now, h, took.cost, took.fair) {
		return st, false
	}
	st = p.leases[h.Slot]
	p.leases[h.Slot] = leaseState{}
	p.learn(now, &st, took.usage, took.whole)
	return st, true
}

// course is the expected course of a call, and how far it has come.
type course struct {
	kind   lengths.Kind
	most   int64 // output tokens
	output lengths.Stream
	run    lengths.Stream
}
