// Package decisions writes down what a governor was told and what it decided, as JSON
// lines in files that are rotated, and reads them again.
//
// # Picture
//
//	Governor ──Observe──► bounded queue ──► one goroutine ──► decisions.jsonl
//	                      full: counted                       decisions.jsonl.1 …
//
// # Rules
//
// Nothing waits for the disk. What does not fit the queue, or cannot be written, is
// counted, and the log says that it is missing: such a log is not replayed as if it
// were whole. An error is logged once, and once that it is over.
//
// The lines are in the order in which a Recorded governor lived them (see package
// governor), each with its instant to the nanosecond, so that the same can be decided
// again: package plan does. A run begins with a line that has the policy and what
// counted before. When a file is full it becomes .1, and .1 becomes .2; each file begins
// with the policy in force. One process at a time writes a file.
//
// Of gateways that share limits each has a log. Its governor is Detailed, and not Recorded, for what
// the others leave of a limit is not told to it: so lines of different calls may be a little out of
// order, and all of them together can be decided again, nearly. Which gateways were there is written when that
// changes, and once a minute, so that a log that is missing is missed.
//
// # What it is not
//
// It is no audit trail of payloads: a line has numbers and names, no prompt, no answer
// and no key.
package decisions
