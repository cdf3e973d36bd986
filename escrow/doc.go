// Package escrow shares one capacity between tenants by weight: a provider's
// tokens and requests a minute, and the calls that may run at once.
//
// # Problem
//
// A provider sells so many tokens a minute. If whoever asks first is served
// first, the loudest tenant of a minute has it all. If each tenant has a part
// set aside, what quiet tenants leave strands while others wait. If the minute
// is a window that restarts, twice the limit passes around its edge. And what
// a call costs is known only when it has ended.
//
// # Picture
//
//	Offer ──► queue ──────────► pace ─────────► ledger ──► runs ──► Settle
//	          who is next       how fast        how much            what it
//	          (fair tags)       (taut string)   (rolling minute)    really took
//
// Three books, each with one job:
//
//   - The queue decides who is next. It is start-time fair queueing: every
//     tenant is a leaf with a tag that a call moves by cost/weight, and the
//     smallest tag goes first. A call's cost is its dominant share of the
//     pool's minute over tokens and requests. Nothing is set aside for anyone,
//     so nothing strands; who comes back after a pause starts at virtual time.
//   - The pace decides how fast. One second of the limit at the start, at most
//     Burst when idle, and never more than the ledger will have room for. So a
//     tenant that returns finds the next second of the pool, not the leavings
//     of the minute.
//   - The ledger decides how much. It counts every rolling minute, in slots of
//     0.1 s, by the rule that the provider counts by (Accounting).
//
// A call that may go when nobody waits is admitted at once, in O(1). A call
// that has to wait is refused at once when its predicted wait is longer than it
// is ready to wait, with that time. The head of the queue is not bypassed.
//
// # Rules
//
// The package is pure: no clock, goroutine, lock or I/O, and no float in any
// book. Every verb takes the time. Its invariants have tests named after them;
// those that a state can show are tested by Check:
//
//	I1  For every rolling Window, at every instant, what is booked and held is
//	    at most the limit, as long as calls take no more than they declare.
//	I2  While calls wait, service is at least rate × time, less the lead, one
//	    second and the largest call.
//	I3  Two leaves that wait all along differ in service over weight by at most
//	    one call, and the estimate errors in flight, of each.
//	I4  A leaf that returns is dispatched within (largest call + own + those of
//	    others returning with it) / rate.
//	I5  Every queued call is dispatched, or cancelled by its owner in time.
//	I7  Pace, tags and ledger agree on what is held and settled; a call that has
//	    ended is gone, and its handle ends nothing else.
//	I9  The heap serves whom the naive search would.
//	I10 A refusal leaves the pool as it was.
//	I12 Where calls differ in shape, dominant shares are equal.
//
// # What it is not
//
// It does not know tenants, models, HTTP or lengths of answers, and it does not
// wait: its owner does (package governor).
package escrow
