// Package load sends calls to a gateway or a model server at times that were drawn
// beforehand, and says what became of each.
//
// # Problem
//
// Most load generators have so many workers, each of which waits for its answer before it
// asks again. When the server stalls, so does the asking: what would have been asked
// meanwhile is never measured, and a stall of two seconds at a hundred calls a second is
// one slow call instead of two hundred. Users do not wait for each other.
//
// # Picture
//
//	file ──► Plan ──► Schedule (of one seed) ──► runner ──► Sample ──► Ledger ──► Report
//	                  who asks when for what      │  ▲  clock, HTTP                table, JSON, HTML
//	                                              ▼  │
//	                                             server
//
// Schedule, Ledger and Report are pure: no clock, goroutine or I/O. The schedule is a
// function of plan and seed, and what the server does changes nothing of it.
//
// # Rules
//
//   - Latency counts from the time at which a call was due. If it was sent late, because
//     this machine was too slow or MaxInFlight held it back, or came back after a refusal,
//     the delay is in the figure. Beside it stands the time since the last sending, which
//     is what the server saw.
//   - What was due and never sent is counted, and so is what was cut short by the end.
//   - Calls that are given up after the timeout are in the latencies with that time.
//     Refusals are not, lest a server look fast that refuses: they have figures of their own.
//   - A stream is whole when its proper end came: [DONE], or its dialect's last event.
//   - Goodput is what whole answers reported as their usage, of those that ended within the
//     measured time.
//   - Times are kept in histograms with an error of 0.1 %, so that memory does not
//     grow with the length of a run.
//
// # What it is not
//
// It reads no internal figures of the gateway: it sees what clients see.
package load
