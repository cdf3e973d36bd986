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
// Parts of owners' limits (package federation/parts) go the same way, in a table of their own: many
// beats in one transaction, which locks the owners' rows in the order of their names, and
// deletes those that may be forgotten once in a while. An Ask locks all owners of its calls so.
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
//   - The tables are made when they are not there. Without the right to make them, let somebody
//     else: the statements are Schema.
package postgres
