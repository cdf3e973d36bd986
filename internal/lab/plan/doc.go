// Package plan decides recorded calls again: by the same policy, to see that the
// record is whole, and by another one, to see which decisions would have changed.
//
// # Picture
//
//	decision logs ──► runs of calls ──► governor, on a clock of its own ──► flips
//	    those of gateways that share        ▲
//	    limits are one run        policy of the log, or a candidate
//
// # Rules
//
// The governor is the one that serves (package governor, Recorded). It gets the same
// inputs as then, at the same instants, and makes all decisions again. By the
// policy of the log every decision comes out as it was, to the nanosecond. If not, lines
// are missing, and the outcome says so.
//
// Under another policy a call may go at another time: then it ends, or its caller goes,
// as long after as it did. A call that was refused, and now is admitted, takes as much as
// calls of its kind took in the record. Callers do not change their minds: who was refused and came
// back does so in any case.
//
// A candidate's changes are its decisions that differ from those of the log's policy when both
// decide again, so that a gap in the record counts on both sides.
//
// # Gateways that share limits
//
// A log has what the store granted its gateway, and by the policy of the log each is decided alone, exactly. By another policy the store
// would have granted something else, which no log tells. But together the gateways decide nearly as one would that has the
// limits to itself, so there their calls are decided in one run, by wall clock time, which is as good as their
// clocks. An event of one gateway counts for its part: a pause of an upstream, as one of so many; the
// gateway's end, for its calls in flight and in its queues; a policy, from when the first of them has it.
// A call that a gateway refused while it shut down or was cut off stays refused. None of this is ever
// called exact.
//
// # Limits
//
// It reads no files and knows no HTTP: a Policy says how a call is asked for.
package plan
