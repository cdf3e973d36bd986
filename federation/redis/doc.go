// Package redis keeps the accounts of pools in Redis.
//
// # Picture
//
//	Beat ──► EVALSHA beat · key of the pool · beat as JSON            one round trip
//	         server.lua     clock, name of the history, role
//	         state.lua      read what there is, write what has changed
//	         account.lua    Account.Beat, as in Go
//	         share.lua, water.lua, safety.lua, book.lua
//	         survey.lua     what is the same of all members, added up once
//	      ◄── reply
//
// One hash a pool holds the account, by member, so that a beat reads and writes no more than
// it needs. It is one key, so that it is there or is gone as a whole, and a cluster has all of it
// on one node.
//
// Parts of owners' limits (package federation/parts) are kept beside them, one value an owner:
// many beats of them go in one round trip, each as a call of parts.lua. An Ask is one call over
// several keys, which are on one node: what is in braces is the tenant that all of them belong to.
//
// # Rules
//
//   - The scripts do what package federation does, in the same order and under the same
//     names; the suite compares the two after every beat.
//   - A beat reads a short record of every member, so it is these that its time goes by. What is long lies
//     beside them, and is read only of who needs it: of a curve the record has a few points on either side of
//     the water level.
//   - The time is the server's.
//   - The incarnation is the name of the server's history (master_replid). It is another one
//     after each start and each promotion, both of which may lose what was confirmed. So a restart
//     begins a new epoch, however the server writes to its disk.
//   - A key that is gone, evicted or flushed, is an account that is new: nothing is granted of it
//     at first.
//   - After an error it is not known whether a beat was booked. It is never sent again, not by the
//     client either; the next one says all that it said. A script that the server does not
//     have is sent whole: then nothing was run.
//   - A replica is never asked: what it says is old, and what it is told is lost.
//
// # Stability
//
// Experimental: any release may change it.
package redis
