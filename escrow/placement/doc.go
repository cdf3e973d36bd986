// Package placement decides where a pool's calls go if its upstreams have limits of their own, and keeps the books of these. The
// pool's tree says who goes next (package escrow, Upstreams); [Books] say where: to an upstream of the lowest order with
// room for the call, there by weight, or where its conversation goes (package affinity).
//
//	escrow.Pool ── Choose, Lack, Wait ──► Books ──► Limits of each upstream: a limits.Set,
//	            ── Begin, End ──────────►           plain (Account), or shared with other processes
//
// A call is booked at one upstream, by the slot of its escrow handle, until it ends or moves to another one. Upstreams live on
// by their names when the configuration changes: their calls, and their usage, count on also if they are listed in
// another order, or have left the list for a while.
//
// Everything here is plain state. The owner of the pool has the lock, and says what time it is.
//
// # Stability
//
// Experimental: any release may change it.
package placement
