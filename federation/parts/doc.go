// Package parts keeps limits over many processes, tenants' own, and pools' calls at once and budgets: so many
// requests or tokens in a minute, so many calls at once, so much of a budget in a period.
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
// that has waited longest for a single call that is larger: it gets what that needs. Of a
// period only what is not used is divided so: nobody gives back the rest.
//
// Who tells weights has as much of what there is too little of as those who ask there are due. It
// tells in two sums who wants more than there is for his weight and who does not (Claim.Calm);
// with each beat these come nearer to weighted max-min over all who ask anywhere. And nobody has what
// is only for what may come (Claim.Spare) while anybody waits, or while there is not something of it for each.
//
// A part expires when no beat is answered. What its process may have used by then
// counts on, for a Window or to the end of the period: it is not known whether it died. Calls
// that run count no more: they end, and the process begins no other; but where the limit is a
// provider's they count for as long as they may run on (Claim.Tail). Who leaves says so; what all
// of those used of a period is kept in one sum.
//
// A process may also have each call let in (Ask): it tells of all owners whose limits hold for the same calls,
// in one step, gives up what it has and does not use, and each call is added to its parts of all of them, or of none,
// if nobody has what it takes. There is no other book for that. So limits are the same ones for processes that
// hold parts ahead and for calls that ask, an Ask that is told twice lets nobody in twice, and what was let in
// and came to nothing is gone with the next beat.
//
// # What is not covered
//
// A store that forgets learns of parts that hold only as their processes tell it, within a
// second or so; by then others may have been given the same, where claims have no Tail: of those that have,
// nothing new is granted for twice a TTL: until all parts of before have expired, and who tried in vain to
// tell what runs has tried again. What a process had used of a period is gone with it, if the store
// forgets and the process ends. And calls that still run in a process that is cut off count nowhere, after
// their Tail, until it is heard of again.
package parts
