// Package durable keeps a governor's books over the end of its process: over a
// restart, a kill -9, a crash.
//
// # Problem
//
// A provider goes on counting when the gateway is restarted. Books that begin at
// zero let through what was let through already. And a process that is killed has
// no time to write its books down.
//
// # Picture
//
//	Acquire, Settle ──► Append ──► journal-00000007      one write(2) a record
//	                       │         │ once a second      fsync, in the background
//	                       ▼         │ once a minute      a new segment, which begins
//	                     Uses ───────┴──► books.db        with the calls in flight
//	                                      └ budgets, as of the beginning of a segment
//
//	Open: books.db ─► + segments since ─► what was used of budgets
//	                    segments of the last two minutes ─► the rolling minute
//
// # Rules
//
// A record is written before the call that it admits is sent. What is written is
// the kernel's from then on, so the end of the process loses nothing. fsync is what
// it takes to survive the end of the machine, and happens about once a second: a
// loss of power may lose what was admitted in that time.
//
// A record has a length and a checksum over both. One that is cut short at the end of
// the journal was being written when the process ended: its call was never sent, and
// it is dropped. One that is damaged with valid ones behind it is an error: the file
// was changed, or the disk fails.
//
// Budgets are added up from the records themselves, as these are written, so that
// what is saved at a segment's beginning and the records from there on are together
// exact. Nothing is saved that a record does not say.
//
// Ages are by the clock on the wall, for no other clock outlives a process. If that
// was put back, what seems to lie ahead counts as now: too long rather than too
// short. If it jumps ahead, who starts later forgets what was before the jump by as
// much too early.
//
// The folder belongs to one process at a time, by the lock on books.db.
//
// # What it is not
//
// It is no store that nodes share, and no log of decisions: segments are removed
// when nothing in them counts any more.
package durable
