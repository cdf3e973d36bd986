package record

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/terms"
)

// Kind is the kind of a Record.
type Kind uint8

// A call is admitted, turns out to take more than it was booked at, and ends. Running repeats the
// admission of a call that is still in flight, so that a journal can drop older segments.
const (
	Admitted Kind = iota + 1
	Running
	Grown
	Ended
)

// Record is one entry of a journal. An end holds all that is known of its call, so that it makes
// sense without the admission.
type Record struct {
	Kind Kind
	// Call names the call. No name is used twice.
	Call         uint64
	Tenant, Pool string
	// Held is when the budgets were held, Began when the call was dispatched, and Ended when it
	// ended, all by the wall clock.
	Held, Began, Ended time.Time
	// Booked is the cost at which the call was booked when it began, or has grown to; Took is its actual
	// cost.
	Booked, Took Charge
}

// Charge is the cost of a call in each set of books.
type Charge struct {
	Pool  escrow.Cost
	Own   limits.Cost // requests, tokens, input, output
	Spend terms.Spend
}

// split fills in the parts of the pool's tokens, which journals do not keep: the input, and the rest.
func (c *Charge) split() {
	c.Pool[escrow.Input] = min(c.Own[limits.Input], c.Pool[escrow.Tokens])
	c.Pool[escrow.Output] = c.Pool[escrow.Tokens] - c.Pool[escrow.Input]
}

// Grow raises the booking of a call that runs to that of a Grown record of it.
func (r *Record) Grow(to *Record) {
	tokens := &r.Booked.Pool[escrow.Tokens]
	*tokens = max(*tokens, to.Booked.Pool[escrow.Tokens])
	r.Booked.split()
}

// Costs are the parts of the cost of a call that has ended, in its pool, that count from its beginning and from its end.
//
// Cost that the provider counts at admission counts from then, so far as it was booked then; the
// rest from the end of the call. Tokens that are counted as they are produced, or
// at the end, count from the end: each of them leaves the minute then or earlier, so none is
// forgotten too soon.
func (r *Record) Costs(accounting escrow.Accounting) (first, late escrow.Cost) {
	for k := range first {
		first[k] = min(r.Booked.Pool[k], r.Took.Pool[k])
		late[k] = r.Took.Pool[k] - first[k]
	}
	if accounting == escrow.AdmitMax {
		return first, late
	}
	late = r.Took.Pool
	late[escrow.Requests] -= first[escrow.Requests]
	return escrow.Cost{escrow.Requests: first[escrow.Requests]}, late
}
