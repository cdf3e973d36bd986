// Package postgres keeps the accounts of pools in PostgreSQL.
//
// # Picture
//
//	Beat ──► begin · timeouts · append the beat to the pool's row · return what is new there · commit     one round trip
//	         Account.Beat of each beat that is new, here
//
// One row a pool holds a log: an account, and the beats since then with the server's clock. The row's lock is what puts the
// beats of all nodes in one order, and the commit, which waits for the disk whatever the server's settings say, is what makes
// them be remembered. Each node works out the account from the log, and so the answer to its own beat, which is the last one
// there. Now and then one writes the account in place of the beats.
//
// Nodes whose rules may differ cannot all work it out. While there are any, the row holds the account alone:
//
//	Beat ──► begin · timeouts · lock the pool's row · clock, incarnation     one round trip
//	         Account.Beat, here
//	         write the row · commit                                          one round trip
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
//   - What a log comes to depends on nothing but its bytes.
//   - For a node that knows no logs, the account in front of the beats is one whose memory was lost.
//   - A node that is cut off in the middle of a beat must not keep the row from the
//     others: the server ends a transaction that is idle for long, or whose node does not answer.
//   - After an error it is not known whether a beat was booked. It is never sent again; the
//     next one says all that it said.
//   - The tables are made when they are not there. Without the right to make them, let somebody
//     else: the statements are Schema.
package postgres
