// Package plan has a recorded past decided again: by the same policy, to see that the
// record is whole, and by another one, to see what that would have changed.
//
// # Picture
//
//	decision log ──► runs of calls ──► governor, on a clock of its own ──► flips
//	                                      ▲
//	                          policy of the log, or a candidate
//
// # Rules
//
// The governor is the one that serves (package governor, Recorded). It is told what was
// told then, at the same instants; what it decides by itself it decides again. By the
// policy of the log every decision comes out as it was, to the nanosecond. If not, lines
// are missing, and the outcome says so.
//
// Under another policy a call may go at another time: then it ends, or its caller goes,
// as long after as it did. What was never let go, and now is, takes what calls of its
// kind took in the record. Callers do not change their minds: who was refused and came
// back does so in any case.
//
// # What it is not
//
// It does not read policy files and knows no HTTP: a Policy says how a call is asked for.
package plan
