// Package durable keeps a governor's books when its process ends: by a restart, a
// kill -9, a crash.
//
// # Problem
//
// A provider continues to count when the gateway is restarted. Books that begin at
// zero admit the same amount again. And a process that is killed has no time to save
// its books.
//
// # Picture
//
//	Acquire, Settle ──► Append ──► journal-00000007      one write(2) a record
//	                       │         │ once a second      fsync, in the background
//	                       ▼         │ once a minute      a new segment, which begins
//	                     Uses ───────┴──► books.db        with the calls in flight
//	                                      └ budgets, as of the beginning of a segment, and
//	                                        the use of limits over long times, and what calls
//	                                        have taught of lengths, as of shortly before
//
//	Open: books.db ─► + segments since ─► the usage of budgets
//	                    segments of the last two minutes ─► the rolling minute
//
// # Rules
//
// A record is written before the call that it admits is sent. From then on it is in the
// kernel, so the end of the process loses nothing. Only fsync survives the end of the
// machine. It happens about once a second, so a loss of power may lose the admissions of
// that time.
//
// A record has a length and a checksum over both. One that is cut short at the end of
// the journal was being written when the process ended: its call was never sent, and
// it is dropped. A damaged record followed by valid ones is an error: the file was
// changed, or the disk fails.
//
// Budgets are added up from the records themselves, as these are written, so that the
// books saved at a segment's beginning and the later records are together exact. The
// books contain nothing that is not in a record.
//
// The use of limits over long times is copied from the governor instead, because a sum over a window of weeks would need all records of
// it. It counts as of its copy, and records of calls since then are added to it, so a segment is kept until a copy was made after it.
//
// Ages are by the wall clock, because no other clock outlives a process. If it was put
// back, records in the future count as of now, so they count too long rather than too
// short. If it jumps ahead, a later start forgets records before the jump too early, by as
// much.
//
// The folder belongs to one process at a time, by the lock on books.db.
//
// With a shared store, Notes keep what was last heard of it (shared.json), which is written
// anew each second.
//
// # Limits
//
// It is no store that nodes share, and no log of decisions: segments are removed
// when none of their records counts any more.
package durable
