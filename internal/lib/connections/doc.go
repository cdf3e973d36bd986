// Package connections bounds how many connections a listener has, and how many of those may belong to each tenant, and to strangers:
// clients that have not shown a valid key. [New] wraps a listener, [Context] goes into http.Server.ConnContext, [Begin] begins each call,
// and [Known] records that a request on the connection had a valid key.
//
//	accepted ──► stranger ──Known──► of a tenant ──► closed for another one, if it is idle and its tenant has most
//	                │          └───► of a token
//	                └── closed for a newer one, if there are too many and it is old enough
//
// # Rules
//
//  1. There are at most Limits.All connections, and at most Limits.Strangers of strangers.
//  2. If there are too many strangers, the one that came first is closed for the new one, but not
//     before it has been there for Limits.Grace. Until then the new connection waits.
//  3. If tenants have Limits.Tenants, or there are Limits.All, an idle connection is closed for the new one: of the tenant that has
//     most, if that is its part, which is Limits.Tenants divided by the number of tenants that have any.
//  4. If none is idle there, a tenant that has its part gets no further one. One that has less takes of the places that
//     are not the tenants', so these should be more than the strangers'.
//  5. A connection is idle if no call is under way on it, nor was for Limits.Grace. One with calls is never closed for another, and
//     neither is one on which a token was shown.
//
// A connection counts for the tenant whose key it has shown first: behind a proxy all do.
//
// An honest client shows its key within milliseconds, so an attacker that only opens connections
// cannot keep it out for long, and after a restart, when all clients connect at the same time, no
// client is closed that is about to send.
//
// The rules are in [table], which is pure but for the clock's readings that connections keep; [Listener] puts a lock and a timer around it.
package connections
