// Package decisions records the inputs and decisions of a governor, as JSON lines in
// files that are rotated, and reads them again.
//
// # Picture
//
//	Governor ──Observe──► bounded queue ──► one goroutine ──► decisions.jsonl
//	                      full: counted                       decisions.jsonl.1 …
//
// # Rules
//
// Writing never blocks calls. Lines that do not fit the queue, or cannot be written, are
// counted, and the log has the count, so that an incomplete log is not replayed as if it
// were complete. An error is logged once, and so is its end.
//
// The lines are in the order in which a Recorded governor processed them (see package
// governor), each with its instant to the nanosecond, so that package plan can replay
// them. A run begins with a line that has the policy and the earlier usage. When a file is
// full it becomes .1, and .1 becomes .2; each file begins with the policy in force. One
// process at a time writes a file.
//
// Each of several gateways that share limits has a log, with what the store granted it. So it can be
// replayed alone, exactly. Under another policy the store would have granted something else, and a replay of all logs
// together is approximate. The names of the
// gateways are written when they change, and once a minute, so that a missing log is noticed.
//
// # Limits
//
// It is no audit trail of payloads: a line has numbers and names, but no prompt, answer
// or key.
package decisions
