package simulate

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// Kind is the kind of an event.
type Kind uint8

// The events of requests. Used says that tokens count against the limit at
// that instant; a negative amount gives back tokens of the same request, and
// leaves the window together with them.
const (
	Offered Kind = iota
	Admitted
	Refused
	Settled
	Used
	First // token, where calls may wait at the model server
)

func (k Kind) String() string {
	return [...]string{"offer", "admit", "refuse", "settle", "use", "first"}[k]
}

// Occurrence is one event of a run. Times count from its start.
type Occurrence struct {
	At      time.Duration
	Tokens  int64
	Request int32
	Kind    Kind
	// Hint is the Retry-After that a refusal carried; 0 for none. Ticket says that
	// a place was kept.
	Hint   time.Duration
	Ticket bool
}

// Request is that of one caller, over all its attempts.
type Request struct {
	Tenant int32 // leaf
	// Worker says that it is one of a backlogged tenant's.
	Worker bool
	At     time.Duration // of the first attempt
	// Tokens are its real cost in all, Input the part of them that
	// counts as soon as it runs, and Run how long it runs.
	Tokens, Input int64
	Run           time.Duration
	// Node is that which it came to, of several.
	Node int32
}

// taken is how many of a request's tokens, of which those of its input come first, count on an axis of tokens.
func (r *Request) taken(axis escrow.Axis, tokens int64) int64 {
	switch input := min(tokens, r.Input); axis {
	case escrow.Input:
		return input
	case escrow.Output:
		return tokens - input
	}
	return tokens
}

// Recall is how many tokens of a request were said before in its conversation, and how many of them its upstream had kept.
type Recall struct {
	Request       int32
	Before, Found int64
}

// Told says that a node has told the store of itself, and asked for its share.
type Told struct {
	At   time.Duration
	Node int32
}

// Trace is one run as it was seen from outside. All figures are computed from
// it, so that none depends on the books of the pool that is measured.
type Trace struct {
	Requests []Request
	Events   []Occurrence
	Beats    []Told // round trips to the store
	// Upstreams are where requests ran, by their ids, if upstreams have limits of their own.
	Upstreams map[int32]int
	// Recalls are the requests of conversations that began at an upstream with a cache.
	Recalls []Recall
}

func (t *Trace) add(at time.Duration, k Kind, request int32, tokens int64) {
	t.Events = append(t.Events, Occurrence{At: at, Kind: k, Request: request, Tokens: tokens})
}

// uses calls f for every use of an axis of requests or tokens, with how much it is.
func (t *Trace) uses(axis escrow.Axis, f func(e *Occurrence, amount int64)) {
	used := make([]int64, len(t.Requests)) // tokens, by request
	for i := range t.Events {
		e := &t.Events[i]
		switch {
		case axis == escrow.Requests && e.Kind == Admitted:
			f(e, 1)
		case axis != escrow.Requests && e.Kind == Used:
			r := &t.Requests[e.Request]
			before := used[e.Request]
			used[e.Request] += e.Tokens
			if amount := r.taken(axis, used[e.Request]) - r.taken(axis, before); amount != 0 {
				f(e, amount)
			}
		}
	}
}
