package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor/record"
)

// Journal keeps records beyond the end of the process.
type Journal interface {
	// Append returns once r is safe: it will be read again even if the process is killed in the
	// next instant. An error means that r is not kept; a call that it would have admitted is then
	// refused. It is called by many goroutines at once.
	Append(r record.Record) error
}

// record is a record of the call of the holds, which began in a pool at a time.
func (b *holds) record(kind record.Kind, pool string, began time.Time, booked record.Charge) record.Record {
	return record.Record{Kind: kind, Call: b.call, Tenant: b.books, Pool: pool, Held: b.at, Began: began, Booked: booked}
}

// keepStart journals the admission of the call. If that fails the call is taken back whole: a call that nobody will remember must not reach
// the provider.
func (c *call) keepStart() {
	b := c.holds
	booked := c.start.booked
	b.logged = booked[escrow.Tokens]
	r := b.record(record.Admitted, c.pool.name, c.start.at, record.Charge{Pool: booked, Own: b.cost, Spend: b.spend})
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
func (p *pool) endRecord(now time.Time, st *leaseState, booked, took record.Charge) record.Record {
	b := st.holds
	if b.call == 0 {
		return record.Record{}
	}
	r := b.record(record.Ended, p.name, st.since, booked)
	r.Ended = now
	r.Took = took
	return r
}

// grown returns a record of a running call that has produced more than the journal knows of;
// the zero Record if it has not. The record includes a margin, so that few records are
// written. Where the provider counts the most at admission, the journal knows already.
func (p *pool) grown(st *leaseState) record.Record {
	b := st.holds
	if b.call == 0 || p.rules.Accounting == escrow.AdmitMax {
		return record.Record{}
	}
	taken := b.belief.tokens(p.weights.cost(Usage{Input: st.input, Output: st.output}))
	if taken <= b.logged {
		return record.Record{}
	}
	b.logged = b.belief.tokens(taken + taken/2)
	return b.record(record.Grown, p.name, st.since, record.Charge{Pool: escrow.Cost{escrow.Tokens: b.logged}})
}
