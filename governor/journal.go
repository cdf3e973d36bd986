package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// Journal keeps records over the end of the process.
type Journal interface {
	// Append keeps r before it returns: if the process is killed in the next
	// instant, r is read again. An error means that r is not kept, and that the call
	// it would have admitted is refused. It is called by many goroutines at once.
	Append(r Record) error
}

// RecordKind says what a Record tells.
type RecordKind uint8

// A call is admitted, may turn out to take more than it was booked at, and ends.
// Running repeats the admission of a call that is in flight still, so that a
// journal can drop what lies further back.
const (
	RecordAdmitted RecordKind = iota + 1
	RecordRunning
	RecordGrown
	RecordEnded
)

// Record is one line of a journal. An end tells all that is known of its call, so
// that it is understood without its beginning.
type Record struct {
	Kind RecordKind
	// Call names the call; names are not used twice.
	Call         uint64
	Tenant, Pool string
	// Held is when the budgets were held, Began when the call was dispatched, and
	// Ended when it ended, by the clock on the wall.
	Held, Began, Ended time.Time
	// Booked is what the call was booked at when it began, or grew to; Took is what
	// it took.
	Booked, Took Charge
}

// Charge is what a call counts as, in each of the books.
type Charge struct {
	Pool  escrow.Cost
	Own   [ownAxes]int64 // requests, tokens, input, output
	Spend Spend
}

// keepStart journals an admission. If that fails the call is taken back whole: one
// that nobody will remember must not reach the provider.
func (g *Governor) keepStart(began time.Time, p *pool, t *tenant, l Lease, b *tab, booked escrow.Cost) (Lease, *Rejection) {
	if g.journal == nil {
		return l, nil
	}
	b.logged = booked[escrow.Tokens]
	err := g.journal.Append(Record{
		Kind: RecordAdmitted, Call: b.call, Tenant: t.name, Pool: p.name,
		Held: b.at, Began: began, Booked: Charge{booked, b.cost, b.spend},
	})
	if err == nil {
		return l, nil
	}
	b.call = 0
	l.endNow(Usage{}, 0, EndReleased)
	return Lease{}, &Rejection{Reason: ReasonStore, Tenant: t.name, Pool: p.name, RetryAfter: storeRetry}
}

// keepEnd journals the end of a call. If that fails its admission stands, and after
// a restart it counts at what it was booked at.
func (g *Governor) keepEnd(now time.Time, p *pool, st *leaseState, booked, took Charge) {
	b := st.tab
	if b.call == 0 {
		return
	}
	_ = g.journal.Append(Record{
		Kind: RecordEnded, Call: b.call, Tenant: st.tenant.name, Pool: p.name,
		Held: b.at, Began: st.since, Ended: now, Booked: booked, Took: took,
	})
}

// grownLocked is a record of a running call that has produced more than the journal
// knows of, if it has. There is a margin, so that few are written. Where the
// provider counts the most at the admission, the journal knows of that.
func (p *pool) grownLocked(st *leaseState) Record {
	b := st.tab
	if b.call == 0 || p.rules.Accounting == escrow.AdmitMax {
		return Record{}
	}
	taken := p.rules.Weights.cost(Usage{Input: st.input, Output: st.output})
	if taken <= b.logged {
		return Record{}
	}
	b.logged = taken + taken/2
	return Record{
		Kind: RecordGrown, Call: b.call, Tenant: st.tenant.name, Pool: p.name,
		Held: b.at, Began: st.since, Booked: Charge{Pool: escrow.Cost{escrow.Tokens: b.logged}},
	}
}
