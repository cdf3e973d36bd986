// Package federation shares one provider's limit between any number of processes, as if
// they were one.
//
// # Problem
//
// Each process that counts for itself multiplies the limit. One that asks a store for
// every request waits for the store, and stands still with it. A store that hands out
// parts ahead of time strands what idle processes have, gives most to who asks first,
// and loses count when a process dies with its part half used.
//
// # Picture
//
//	process                                            store, one account a pool
//	escrow.Pool ◄─ Allow, Share ─ Node ─── Beat ────►  Account: book what was used
//	     │                         ▲                            work out the water level
//	     └── what was used ────────┘ ◄──── Reply ────           cut the grant to the limit
//	         what is asked for           a grant
//
// Every second a node says what its pool has used, slot by slot, what it still holds, and
// what is asked for. It gets a grant: so much at once, and a rate, until it expires. The
// request path never waits for any of this; the pool just hands out no more than the
// allowance in force.
//
// # How much each gets
//
// A node tells a curve: how much its callers would use if each unit of weight got so
// much. What they would use is not how often they ask, for who is refused may ask again at
// once, or never: it is what they are served, what waits, and what places are kept for, as far
// as somebody comes back to such places. Curves add up. The level at which the sum is all there is, is the water level of
// weighted max-min over all callers of all processes, and a node's curve there is its part.
// Locally, fair queueing at that rate gives each tenant what it is entitled to
// everywhere, if its weight counts in each process by the part of its demand that comes
// there (Share).
//
// The rate that is so shared is the steepest line under the room to come, as a pool's own
// pace has it. What an idle pool has saved up (Fill) is handed out at once to who lacks
// it. And no node gets more than its part of the room of any moment to come, so that it
// is not the limit that decides, which would serve who asks first.
//
// What several nodes lose against one is what is on its way: one slot in 241; what is
// given back, of which the store hears up to a beat later; and under accounting by
// production about what may be handed out in the life of a grant, for that is counted
// before it is produced. docs/architecture.md has the figures, and llmgov simulate (d1 to
// d4) makes them.
//
// # Why the limit holds
//
// None of the above is needed for that. A grant is cut so that at the end of every slot to
// come, what is booked in the Window before, and the most that all nodes can have used by
// then of what they are known to have, is within the limit. It rests on few rules:
//
//   - What a node may have used counts until it has said otherwise, and, if it never does,
//     as if it had used it in the last moment before it expired.
//   - Only the process itself says what it has not used. What another of the same name
//     held, which is dead or cut off, is not given back.
//   - A node takes only the answer to its last beat. To beats before it has been
//     said that nothing came of them.
//   - A grant's time begins when the beat was sent, on the node's own clock. No clocks
//     are compared; they need only run equally fast, to a part in a thousand.
//   - What is used is booked in the latest slot in which it can have been, and what may be
//     used is counted from the earliest moment at which the beat can have been sent.
//   - The Window rolls: one slot more than it has is counted, so no interval of its length
//     escapes.
//   - The store's clock never runs backwards; where it is put back by more than a Window, its
//     memory is of no use. Where it jumps ahead, so that it shows more than it can by a node's
//     own, that node tells again what it has used, by the new clock, and takes nothing that is
//     granted until all others have had the time to do so, too.
//   - A store that may have lost writes grants nothing until a Window has passed, or until as
//     many nodes as there are have told all.
//     So does one that knows nothing, unless as many nodes as there are run side by side,
//     and none of them knows of a memory before.
//   - What a rate has come to beyond whole units is less than a unit, is carried to the next
//     grant, and is told. A grant is charged for the whole units that it makes with that.
//
// What is not covered: a store that loses everything while all who knew of it end, too, may
// take itself for a new one; and where its clock jumps ahead, what those used before who do
// not reach it then counts for so much shorter.
//
// # What it is not
//
// It knows no tenants, files or HTTP. Node and Account are pure: no clock, goroutine or
// I/O; there is no float in what is booked or granted at last, only in who gets how much.
//
// # Further reading
//
// Kumar et al., "BwE: Flexible, Hierarchical Bandwidth Allocation for WAN Distributed
// Computing", SIGCOMM 2015, for curves that add up; the Doorman of Google's YouTube for
// leases of capacity, wants and a learning mode; Shue, Freedman, Shaikh, "Performance
// Isolation and Fairness for Multi-Tenant Cloud Storage", OSDI 2012, for weights that
// follow demand.
package federation
