// Package slots is one process's side of the slots of a pool: how many calls may be in flight here, of a limit that
// stands or moves, and that other processes may share. Most callers want [New], [Side.Demand] and [Side.Allow].
//
// # Picture
//
//	                    Side ── Demand ──► claims ──► store
//	escrow.Pool ◄─ Narrow ┤                             │
//	adaptive.Fleet ◄─ Hear┴◄─ Allow(Grant) ◄────────────┘
//
// # Rules
//
// A pool that is not shared goes by the limit alone. One that is shared goes by a grant of it, which expires. When it has
// expired no call begins, except those of the part that the pool's configuration leaves a process that hears of nobody (Loss).
//
// The demand is read from the pool: calls that run and wait, calls that were refused and may come back, and by which weights
// they compete. Calls that only a soft cap or a band keeps waiting lack no slot, but room of their own, which is
// demanded beside the slots.
//
// An adaptive limit is that of all processes (package adaptive). A sample's running calls are those of all, and a process is full
// only if all are: a slot that lies idle elsewhere holds no call back for long.
//
// It has no clock, no lock and no queue, and talks to nobody: package governor has the lock, package federation/claims makes
// claims of demands, and a simulation plays both.
//
// # Stability
//
// Experimental: any release may change it.
package slots
