// Package postgres keeps the accounts of pools in PostgreSQL.
//
// # Picture
//
//	Beat ──► begin · timeouts · lock the pool's row · clock, incarnation     one round trip
//	         Account.Beat, here
//	         write the row · commit                                          one round trip
//
// One row a pool holds the encoded account. The row's lock is what puts the beats of all
// nodes in one order, and the commit, which waits for the disk whatever the server's
// settings say, is what makes them be remembered.
//
// # Rules
//
//   - The time is the server's, read when the lock is held.
//   - The incarnation is the server's system identifier and its timeline. A replica that
//     was promoted has a new timeline, may have lost what the primary had confirmed, and so
//     begins a new epoch. A restart has not.
//   - A node that is cut off in the middle of a beat must not keep the row from the
//     others: the server ends a transaction that is idle for long.
//   - After an error it is not known whether a beat was booked. It is never sent again; the
//     next one says all that it said.
//   - The table is made when it is not there. Without the right to make it, let somebody
//     else: the statements are Schema.
package postgres
