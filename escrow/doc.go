// Package escrow shares one capacity between tenants by weight: a provider's
// tokens and requests a minute, and the calls that may run at once.
//
// # Problem
//
// A provider sells so many tokens a minute. If whoever asks first is served
// first, the loudest tenant of a minute has it all. If each tenant has a part
// set aside, the parts of quiet tenants strand while others wait. If the minute
// is a window that restarts, twice the limit passes around its edge. And what
// a call costs is known only when it has ended.
//
// # Picture
//
//	Offer ──► tree ───────────► pace ─────────► ledger ──► runs ──► Settle
//	          who is next       how fast        how much            what it
//	          (fair tags)       (taut string)   (rolling minute)    really took
//
// Three books, each with one job:
//
//   - The tree decides who is next. Tenants are its leaves; groups of them, and
//     tenants with teams, its inner nodes. Every inner node is a start-time fair
//     queue: each child has a tag that a call below it moves by cost/weight, and
//     the smallest goes first. A call's cost is its dominant share of the pool's
//     minute over tokens, requests and the time it occupies a slot. Nothing is set
//     aside for anyone, so nothing strands; who comes back after a pause starts at
//     virtual time. A node whose floor is due goes before all weights. Of one leaf,
//     interactive calls go before background ones, but for a twentieth of its
//     service; between leaves, the tags decide, whatever the class.
//   - The pace decides how fast. One second of the limit at the start, at most
//     Burst when idle, and never more than the ledger will have room for. A
//     tenant that returns therefore finds the next second of the pool still
//     free, and catches up with others that ran ahead of the fluid server.
//   - The ledger decides how much. It counts every rolling minute, in slots of
//     time, by the rule that the provider counts by (Accounting). Where that is
//     production, the ledger is a calendar: it holds the tokens that streams have produced, and
//     in the slots to come those that they are expected to.
//
// There is one tree, and a pace and a ledger for each axis, tokens and requests
// (axisBooks). The calls that run at once are only counted.
//
// A call that may go when nobody waits, or that would be next of all, is admitted at
// once. A call that has to wait is refused at once when its predicted wait is longer
// than it is ready to wait, with that time, and its place is kept for when it comes
// back (a ticket). The head of the queue is not bypassed, but by a few calls of its own leaf that find their upstream (Upstreams.Home). The time that a caller is told (a promise) is when its
// turn will probably come, if others go on coming as they did lately.
//
// A pool may stand before several Upstreams that have limits of their own. The tree then decides who is next and the
// upstreams decide where. Only a call whose upstreams are all full is passed over, by calls that use none of these.
//
// # Use
//
// A call is offered, runs, and is settled; each verb takes the time, and costs
// O(depth · log children) unless it says otherwise.
//
//	Offer                asks for a call: it runs, in O(depth), waits, or is refused
//	Pump                 dispatches the calls that may go now: after every other verb, and at Next
//	Progress             reports the usage of a running call so far
//	Settle               ends a running call with its true cost
//	Cancel               withdraws a call that waits
//	Refuse               does so when it has waited its time, and says when to come back
//	Forecast             says when a call would have its turn, without offering it
//	Add, Update, Remove  change the tree
//	Configure            changes the limits, in O(calls and nodes)
//	Throttle             hands out a part of the rate, or nothing for a while
//	Narrow               has only some of the slots used
//	SetUpstreams         says which upstreams stand behind the pool, if these have limits of their own
//	Move                 sends a running call on to another of them
//	Remember, Recalled   book usage from before the pool began, and say that this was all of it
//	Allow, Share         of a limit shared with other processes: how much may be handed out
//	                     here, and how much of a node's claim counts here
//	Bookings, Demand     report to whoever shares it out
//	State, Node          report
//
// # Words
//
//	call          the unit that is offered; in the pool's table an entry, as is a ticket
//	place         of a refused call: where its tag was. A ticket keeps it
//	turn          of a call: when the pool will serve it
//	promise       to a refused call: after which time it is told to come back
//	virtual cost  a call's dominant share of the pool's minute, in tagUnits
//	fair          said of the tokens of a call that count in its leaf's share: tags move
//	              by these, and the books by all (Call.Fair)
//	tag           how far a node has come: the virtual cost it has had over its weight
//	head          of the queue: the call that Pump tries next
//	slot          of the pool: a running call occupies one (Slots). Of a ledger or a
//	              calendar: a stretch of time. Of a Handle: an index
//	class         of a call: interactive or background. A node's rank is the class of
//	              the calls that wait below it, or absent
//	apart         said of a ledger that counts otherwise than by what was dispatched
//
// # Rules
//
// The package is pure: no clock, goroutine, lock or I/O, and no float. Its
// invariants have tests that cite them; those that a state can show are tested by
// Check, after every step of a state machine:
//
//	I1  For every rolling Window, at every instant, the sum of bookings and holds is
//	    at most the limit, as long as calls take no more than they are expected to.
//	I2  While calls wait, service is at least rate × time, less the lead, one
//	    second and the largest call.
//	I3  Two siblings below which calls wait all along differ in service over weight
//	    by at most one call, and the estimate errors in flight, of each.
//	I4  A node that returns is served within (largest call + own + those of others
//	    returning with it + what its own branch has run ahead) / rate.
//	I5  Every queued call is dispatched, or withdrawn by its owner in time.
//	I6  In a tree, no leaf is further from its fluid share than the largest call
//	    for each level.
//	I7  Pace, tags and ledger agree on holds and settlements; a call that has
//	    ended is gone, and its handle ends nothing else.
//	I8  Kept places hold no capacity, and each is used once.
//	I9  The heaps serve whom the naive search would.
//	I10 A refusal leaves the pool as it was, but for the kept place.
//	I11 Declaring more than one takes, or being several under one parent, gains
//	    nothing.
//	I12 Where calls differ in shape, dominant shares are equal.
//
// # What it is not
//
// It does not know tenants, models or HTTP, it guesses no lengths (package lengths
// does) and it does not wait: its owner does (package governor).
//
// # Stability
//
// Experimental: any release may change it.
package escrow
