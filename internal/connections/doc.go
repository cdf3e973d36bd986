// Package connections bounds how many connections a listener has, and how many of those may belong
// to strangers: clients that have not shown a valid key. [New] wraps a listener, [Context] goes into
// http.Server.ConnContext, and [Known] records that a request on the connection had a valid key.
//
//	accepted ──► stranger ──Known──► known
//	                │
//	                └── closed for a newer one, if there are too many and it is old enough
//
// # Rules
//
//  1. There are at most Limits.All connections, and at most Limits.Strangers of strangers.
//  2. If there are too many, the stranger that came first is closed for the new connection, but not
//     before it has been there for Limits.Grace. Until then the new connection waits.
//  3. A connection on which a valid key was shown is never closed for another one.
//
// An honest client shows its key within milliseconds, so an attacker that only opens connections
// cannot keep it out for long, and after a restart, when all clients connect at the same time, no
// client is closed that is about to send.
//
// The rules are in [table], which is pure; [Listener] puts a lock and a timer around it.
package connections
