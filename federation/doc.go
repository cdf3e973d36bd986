// Package federation shares one provider's limit between any number of processes, as if
// they were one.
//
// # Problem
//
// Processes that each count for themselves multiply the limit. A process that asks a store
// for every request waits for the store, and stops when the store stops. A store that hands
// out parts in advance strands the parts of idle processes, gives most to the process that asks
// first, and loses count when one dies with its part half used.
//
// # Picture
//
//	process                                            store, one account a pool
//	escrow.Pool ◄─ Allow, Share ─ Node ─── Beat ────►  Account: book what was used
//	     │                         ▲                            work out the water level
//	     └── what was used ────────┘ ◄──── Reply ────           cut the grant to the limit
//	         what is asked for           a grant
//
// Every second a node reports its pool's usage, slot by slot, the rest of its grant, and
// its demand. It gets a grant: so much at once, and a rate, until it expires. The
// request path never waits for any of this; the pool just hands out no more than the
// allowance in force.
//
// # How much each gets
//
// A node tells a curve: how much its callers would use if each unit of weight got so much.
// Their demand is not how often they ask, since a caller that is refused may ask again
// at once, or never. It is the calls that are served, that wait, and for which places are kept, so
// far as callers come back to such places. Curves add up. The level at which the sum comes to
// all there is, is the water level of weighted max-min over all callers of all processes, and
// a node's curve at that level is its part. Locally, fair queueing at that rate gives each
// tenant its share over all processes, if its weight counts in each process by
// the part of its demand that comes there (Share).
//
// The rate that is shared like this is the steepest line under the room to come, as a
// pool's own pace draws it. The savings of an idle pool (Fill) lie ready at each node, as much as it would
// use until its next beat, and so does what its own calls may give back meanwhile; several may have the same savings ready. Once more waits than is saved, they are handed out
// to nodes that lack it, and no node gets more than its part of the room at any moment to come,
// so that the limit itself never decides: it would serve whoever asks first.
//
// What several nodes lose against one is what is in transit: one slot in 241; what is given
// back, which the store learns up to a beat later; and under accounting by production about
// what may be handed out during the life of a grant, since that is counted before it is
// produced. docs/decisions/033-nodes-tell-the-store-their-demand-and-get-grants.md has the figures, and llmgov simulate (d1 to d4) makes them.
//
// # Why the limit holds
//
// None of the above is needed for that. A grant is cut such that at the end of every slot to
// come, all bookings in the Window before, plus the most that all nodes can have used by
// then of their known grants, are within the limit. That rests on few rules:
//
//   - The most that a node may have used counts until it has said otherwise. If it never does, it
//     counts as if it was used at the last moment before it expired.
//   - Only the process itself says how much it has not used. The grant of another process of the same
//     name, which is dead or cut off, is not given back.
//   - A node takes only the answer to its last beat. By that beat the store knows that
//     nothing came of earlier answers.
//   - A grant's time begins when the beat was sent, on the node's own clock. Clocks are never
//     compared; they only need to run equally fast, to one part in a thousand.
//   - Usage is booked in the latest slot in which it can have been, and grants
//     are counted from the earliest moment at which the beat can have been sent.
//   - The Window rolls: one slot more than it has is counted, so that no interval of its
//     length escapes.
//   - The store's clock never runs backwards; if it is put back by more than a Window, its
//     memory is discarded. If it jumps ahead, so that it shows more than is possible by a
//     node's own clock, that node reports its usage again, by the new clock, and takes no
//     grant until all others have had the time to do so as well.
//   - A store that may have lost writes grants nothing until a Window has passed, or until as
//     many nodes as there are have told everything, or until a node that is still there has brought
//     back its digest of the account. All that others may have been granted since then
//     counts as used until they tell themselves (Copy). The same goes for a store that knows nothing, unless as many nodes
//     as there are run side by side, and none of them knows of an earlier memory.
//   - The part of a unit to which a rate has come is carried over to the
//     next grant, and is told. A grant is charged for the whole units that it makes together
//     with that.
//
// Not covered is a store that loses everything, while all nodes that knew it end: it may
// take itself for a new one. And if its clock jumps ahead, the usage of nodes that cannot
// reach it counts for a shorter time, by as much.
//
// # Bounds
//
// It knows no tenants, files or HTTP. Node and Account are pure: no clock, goroutine or I/O.
// Bookings and grants involve no floats; only the division of it does.
//
// # Further reading
//
// Kumar et al., "BwE: Flexible, Hierarchical Bandwidth Allocation for WAN Distributed
// Computing", SIGCOMM 2015, for curves that add up; the Doorman of Google's YouTube for
// leases of capacity, wants and a learning mode; Shue, Freedman, Shaikh, "Performance
// Isolation and Fairness for Multi-Tenant Cloud Storage", OSDI 2012, for weights that
// follow demand.
//
// # Stability
//
// Experimental: any release may change it.
package federation
