// Package plan has a recorded past decided again: by the same policy, to see that the
// record is whole, and by another one, to see what that would have changed.
//
// # Picture
//
//	decision logs ──► runs of calls ──► governor, on a clock of its own ──► flips
//	    those of gateways that share        ▲
//	    limits are one run        policy of the log, or a candidate
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
// What a candidate changes is what it decides otherwise than the policy of the log does,
// when both decide again: so what is not as it was, is so on both sides.
//
// # Gateways that share limits
//
// What a store leaves to each gateway, when, is in no log. Together they do nearly what one
// would that has the limits to itself, so that is what their calls are decided by: all in one run,
// by the time on the wall, which is as good as their clocks. What one of them was told alone
// counts for its part: a pause of an upstream, as one of so many; its end, for what it had in
// flight and who waited there; a policy, from when the first of them has it. What it refused as it shut
// down, or was cut off, stays refused. None of this is ever called exact.
//
// # What it is not
//
// It reads no files and knows no HTTP: a Policy says how a call is asked for.
package plan
