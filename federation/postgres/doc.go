// Package postgres keeps the accounts of pools, and of owners of limits, in PostgreSQL.
//
// # Picture
//
//	Beat ──► begin · timeouts · append the beat to the row · return what is new there · commit     one round trip
//	         Account.Beat of each beat that is new, here
//
// One row a pool holds a log: an account, and the beats since then with the server's clock. The row's lock is what puts the
// beats of all nodes in one order, and the commit, which waits for the disk whatever the server's settings say, is what makes
// them be remembered. Each node works out the account from the log, and so the answer to its own beat, which is the last one
// there. Now and then one writes the account in place of the beats.
//
// Parts of owners' limits (package federation/parts) go the same way, in a table of their own: many beats in one batch, which
// locks the owners' rows in the order of their names, and deletes those that may be forgotten once in a while. When
// a beat is appended nobody knows the account yet, so the row is kept for as long as anything in that beat may count.
//
// Nodes whose rules may differ cannot all work it out. While there are any, rows hold accounts alone:
//
//	Beat ──► begin · timeouts · lock the row · clock, incarnation     one round trip
//	         Account.Beat, here
//	         write the row · commit                                   one round trip
//
// An Ask locks all owners of its calls so, and begins their logs anew. The last node that is stopped in order leaves accounts.
//
// # Rules
//
//   - The time is the server's, read when the lock is held.
//   - The incarnation is the server's system identifier and its timeline. A replica that
//     was promoted has a new timeline, may have lost what the primary had confirmed, and so
//     begins a new epoch. A restart has not.
//   - What a log comes to depends on nothing but its bytes.
//   - For a node that knows no logs, a pool's account in front of the beats is one whose memory was lost. An owner's is one that it cannot
//     read: it is granted nothing of it, and leaves it alone. As soon as a pool's account says that it is there, logs of owners end.
//   - A node that is cut off in the middle of a beat must not keep the row from the
//     others: the server ends a transaction that is idle for long, or whose node does not answer.
//   - After an error it is not known whether a beat was booked. It is never sent again; the
//     next one says all that it said.
//   - The tables are made when they are not there. Without the right to make them, let somebody
//     else: the statements are Schema.
//
// # Stability
//
// Experimental: any release may change it.
package postgres
