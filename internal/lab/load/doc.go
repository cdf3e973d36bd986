// Package load sends calls to a gateway or a model server at times that were drawn
// beforehand, and reports the outcome of each.
//
// # Problem
//
// Most load generators have a number of workers, each of which waits for its answer before it
// sends the next call. When the server stalls, so do they: calls that users would have sent
// meanwhile are never measured, and a stall of two seconds at a hundred calls a second is
// one slow call instead of two hundred. Users do not wait for each other.
//
// # Picture
//
//	file ──► Plan ──► Schedule (of one seed) ──► runner ──► Sample ──► Ledger ──► Report
//	                  times, tenants, lengths     │  ▲  clock, HTTP                table, JSON, HTML
//	                                              ▼  │
//	                                             server
//
// Schedule, Ledger and Report are pure: no clock, goroutine or I/O. The schedule is a
// function of plan and seed, whatever the server does.
//
// # Rules
//
//   - Latency counts from the time at which a call was due. If it was sent late, because
//     this machine was too slow or MaxInFlight held it back, or came back after a refusal,
//     the delay is in the figure. The report shows the time since the last sending beside it,
//     which is the latency of the server alone.
//   - Calls that were due and never sent are counted, and so are calls that the end cut short.
//   - Calls that are given up after the timeout are in the latencies with that time.
//     Refusals are not, because a server that refuses would look fast: they have figures of
//     their own.
//   - A stream is whole if it had its proper end: [DONE], or its dialect's last event.
//   - Goodput is the usage reported by whole answers that ended within the measured time.
//   - Times are kept in histograms with an error of 0.1 %, so that memory does not
//     grow with the length of a run.
//
// # Limits
//
// It reads no internal figures of the gateway: it sees what clients see.
package load
