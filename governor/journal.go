package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
)

// Journal keeps records beyond the end of the process.
type Journal interface {
	// Append returns once r is safe: it will be read again even if the process is killed in the
	// next instant. An error means that r is not kept; a call that it would have admitted is then
	// refused. It is called by many goroutines at once.
	Append(r Record) error
}

// RecordKind is the kind of a Record.
type RecordKind uint8

// A call is admitted, turns out to take more than it was booked at, and ends. Running repeats the
// admission of a call that is still in flight, so that a journal can drop older segments.
const (
	RecordAdmitted RecordKind = iota + 1
	RecordRunning
	RecordGrown
	RecordEnded
)

// Record is one entry of a journal. An end holds all that is known of its call, so that it makes
// sense without the admission.
type Record struct {
	Kind RecordKind
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
	Spend Spend
}

// split fills in the parts of the pool's tokens, which journals do not keep: the input, and the rest.
func (c *Charge) split() {
	c.Pool[escrow.Input] = min(c.Own[limits.Input], c.Pool[escrow.Tokens])
	c.Pool[escrow.Output] = c.Pool[escrow.Tokens] - c.Pool[escrow.Input]
}

// keepStart journals the admission of the call. If that fails the call is taken back whole: a call that nobody will remember must not reach
// the provider.
func (c *call) keepStart() {
	b := c.holds
	booked := c.start.booked
	b.logged = booked[escrow.Tokens]
	r := Record{
		Kind: RecordAdmitted, Call: b.call, Tenant: b.books, Pool: c.pool.name,
		Held: b.at, Began: c.start.at, Booked: Charge{booked, b.cost, b.spend},
	}
	var err error
	now := c.g.aside(func() { err = c.g.journal.Append(r) })
	if err == nil {
		return
	}
	b.call = 0
	if e, ok := c.lease.endNow(now, Usage{}, 0, EndReleased); ok && c.g.events.listened() {
		c.g.events.add(e.told(c.pool.pool, Usage{}, EndReleased))
	}
	c.lease = Lease{}
	c.rej = refuseUnkept(c.tenant.name, c.pool.name)
}

// endRecord is the record of a call's end; the zero Record if the journal does not know the call.
func (p *pool) endRecord(now time.Time, st *leaseState, booked, took Charge) Record {
	b := st.holds
	if b.call == 0 {
		return Record{}
	}
	return Record{
		Kind: RecordEnded, Call: b.call, Tenant: b.books, Pool: p.name,
		Held: b.at, Began: st.since, Ended: now, Booked: booked, Took: took,
	}
}

// grown returns a record of a running call that has produced more than the journal knows of;
// the zero Record if it has not. The record includes a margin, so that few records are
// written. Where the provider counts the most at admission, the journal knows already.
func (p *pool) grown(st *leaseState) Record {
	b := st.holds
	if b.call == 0 || p.rules.Accounting == escrow.AdmitMax {
		return Record{}
	}
	taken := b.belief.tokens(p.weights.cost(Usage{Input: st.input, Output: st.output}))
	if taken <= b.logged {
		return Record{}
	}
	b.logged = b.belief.tokens(taken + taken/2)
	return Record{
		Kind: RecordGrown, Call: b.call, Tenant: b.books, Pool: p.name,
		Held: b.at, Began: st.since, Booked: Charge{Pool: escrow.Cost{escrow.Tokens: b.logged}},
	}
}
