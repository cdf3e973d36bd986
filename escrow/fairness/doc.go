// Package fairness measures how fairly a pool was shared: the entitlement of each tenant
// and its service.
//
// # Problem
//
// Whether a tenant had its share of a minute cannot be read from its service: perhaps it
// asked for no more, or came late. It has to be compared with the service that a fair server would
// have given it, out of the same amount, for its demand.
//
// # Picture
//
//	             counters of the scheduler, once a second
//	                              │
//	received, asked for ──► fluid server ──► entitled ──► ratios, Jain's index
//	     (by leaf)         (weighted max-min                lent and borrowed
//	                        at every node)
//
// The fluid server works off the same demand beside the real one: each second it shares
// the amount that the pool handed out between those who want something just then, by weighted max-min at every
// node of the tree, with floors before weights. Waiting calls are wanted in each second in which
// it does: who is kept waiting may have more calls, that it makes when these are served.
//
// # Rules
//
//   - The fluid server shares out the amount that the pool handed out, no more: that the pool
//     handed out too little is another matter (escrow.Pool.Unused). But where the pool
//     runs ahead of its limit's rate, as an idle one may by its burst, the fluid server
//     does not, so that who comes during a burst is entitled to catch up. The lead is
//     entitled to provisionally, as if nobody came.
//   - All received is entitled to by somebody: both sums are the same, but for the amount that is
//     given back.
//   - Calls that went away unserved the fluid server may have served already.
//     Then those who really got it were entitled to less by so much.
//   - A call counts by its virtual cost, which moves the tags: its dominant share of the pool's
//     minute. The difference from its true cost is put right when it ends, on both sides;
//     a refund counts for the time when it was dispatched.
//
// # What it is not
//
// It decides nothing, so it may use floats. It knows no clock, no lock and no names.
//
// # Stability
//
// Experimental: any release may change it.
package fairness
