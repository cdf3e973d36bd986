// Package parts keeps a tenant's own limits over many processes: so many requests or
// tokens in a minute, so many calls at once, so much of a budget in a period.
//
// # Picture
//
//	                    one account an owner: who has which part of each limit
//	                                    ▲  │
//	             beat: used, part, want │  │ part, used by others
//	                                    │  ▼
//	process ── quota, as if its part were the limit ── calls
//
// # Rule
//
// Each process holds a part of a limit, and counts as if that were the whole: what it
// has used in the last minute, runs now, or has used of a period, stays within its part.
// The parts together are never more than the limit. So neither is what all have used,
// whichever way a limit counts: one protocol serves them all.
//
// A process is asked for no part of what it has; it is told a smaller one. Until it has
// said that it knows, the larger one counts, and as long as more counts than its part,
// that does. It takes no answer but the one to its last beat, so what it says that it has is
// all that it has.
//
// What nobody wants stays in the account, where whoever begins to ask finds it in one
// round trip. Where all want more than there is, all get the same part, but for the one
// that has waited longest for a single call that is larger: it gets what that needs.
//
// A part expires when no beat is answered. What its process may have used by then
// counts on, for a Window or to the end of the period: it is not known whether it died. Calls
// that run count no more: they end, and the process begins no other. Who leaves says so; what all
// of those used of a period is kept in one sum.
//
// # What is not covered
//
// A store that forgets learns of parts that hold only as their processes tell it, within a
// second or so; by then others may have been given the same. What a process had used of a period
// is gone with it, if the store forgets and the process ends. And calls that still run in a process
// that is cut off count nowhere until it is heard of again.
package parts
