// Package fairness tells how fairly a pool was shared: what each tenant was entitled to
// and what it got.
//
// # Problem
//
// Whether a tenant had its share of a minute cannot be read from what it got: perhaps it
// asked for no more, or came late. It has to be compared with what a fair server would
// have given it, of what there was, for what it asked for.
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
// what the pool handed out between those who want something just then, by weighted max-min at every
// node of the tree, with floors before weights. What waits is wanted in each second in which
// it does: who is kept waiting may have more calls, that it makes when these are served.
//
// # Rules
//
//   - What the fluid server shares out is what the pool handed out, no more: that the pool
//     handed out too little is another matter (escrow.Pool.Unused). But where the pool
//     runs ahead of its limit's rate, as an idle one may by its burst, the fluid server
//     does not, so that who comes during a burst is entitled to catch up. What is ahead is
//     entitled to provisionally, as if nobody came.
//   - All received is entitled to by somebody: both sums are the same, but for what is
//     given back.
//   - What was asked for and went away unserved, the fluid server may have served already.
//     Then those who really got it were entitled to less by so much.
//   - A call counts for what it moves the tags by: its dominant share of the pool's
//     minute. What it turns out to have taken is put right when it ends, on both sides;
//     what it gives back of what it was charged, for when it was dispatched.
//
// # What it is not
//
// It decides nothing, so it may use floats. It knows no clock, no lock and no names.
package fairness
