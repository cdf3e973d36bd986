// Package parts divides limits over many processes: tenants' own limits, and the slots (calls at
// once) and budgets of pools. A limit is so many requests or tokens a minute, so many calls at
// once, or so much of a budget in a period.
//
// # Picture
//
//	                    one account an owner: who has which part of each limit
//	                                    ▲  │
//	             beat: used, part, want │  │ part, used by others
//	                                    │  ▼
//	process ── quota, as if its part were the limit ── calls
//
// # Rules
//
// Each process holds a part of a limit, and counts as if that were the whole limit: what it has
// used in the last minute, runs now, or has used of a period, stays within its part. All parts
// together are never more than the limit. So neither is what all processes have used, whichever
// way a limit counts, and one protocol serves all kinds.
//
// A process is not asked to give back a part; it is told a smaller one. Until it has said that it
// knows, the larger one counts, and if more than the part is in use, that counts. A process
// takes no answer but the one to its last beat, so what it says that it has is all that it has.
//
// What nobody wants stays in the account, where a process that begins to ask finds it within one
// round trip. If more is wanted than there is, all get the same part, except that the one that has
// waited longest for a single larger call gets what that needs. Of a period only what is left is
// divided like this, since nobody gives back what was used.
//
// Processes that tell weights get as much of what is scarce as those who ask there are due. To that
// end a process tells two sums: of those who want more than they have, and of those who do not
// (Claim.Calm). With each beat the parts come closer to weighted max-min over all who ask anywhere.
// Nobody gets anything for calls that only may come (Claim.Spare) while any call waits, or while there
// is less of that than there are processes.
//
// A part expires when no beat is answered. What its process may have used by then counts on, for a
// Window or to the end of the period, since nobody knows whether the process died. Calls that run do
// not count on: they end, and the process begins no others. But where the limit is a provider's they
// count for as long as they may run (Claim.Tail). A process that ends says so; what all such processes
// used of a period is kept as one sum.
//
// A process may also have each call let in (Ask). It tells of all owners whose limits hold for the
// same calls, in one step, and gives up what it has but does not use. Each call is then added to the
// process's parts of all these limits, or of none if one has no room. There are no other books
// for that. So the limits are the same for processes that hold parts in advance and for calls that
// ask, an Ask that arrives twice lets nobody in twice, and a call that was let in but did not go is
// forgotten with the next beat.
//
// # Parts that last
//
// A process that uses little of an owner's limits need not tell every second. Its claims say for how long beyond a TTL its parts are to
// last (Claim.Lasts), and the account counts them for as long, and their use a Window beyond. So a call finds a part although nobody has
// asked for long, and what is granted rests on the account alone, whoever joins or leaves. Three rules make that safe and useful:
//   - The process uses such a part only while the store has answered a beat of another account within a TTL. It sends that for all owners
//     together. If that account is lost, or was not told of for a TTL, all parts are told of again. So a part that the store has
//     forgotten is used for no longer than one that does not last.
//   - A later beat cuts the time that a part lasts as it is sent, because the account goes by that beat, with or without an answer.
//   - In that other account processes leave notes of which owners' limits they lack a part, or have found a new account of. Whose parts
//     of these last tells at once, and every second for a while.
//
// Parts last from the second answer on, so that a store that loses its last writes knows of them. After a loss, who tells late has still
// been heard of for as long as its parts lasted (Claim.Lasted).
//
// With a claim a process may leave a note, which the account passes on to the others unread (Claim.Note). That is how
// processes find out a limit together that nobody knows: each claims with the limit that it has heard of.
//
// # After a loss
//
// An account that is lost is restored by any process that knew it (Account.Lost). With each answer a
// process hears what all others have of each limit (Part.Sum), and those of them who are gone (Part.Gone); what
// they may come to have before it is heard of again (Part.Most), and how many they are. An account that begins with
// nothing, and is told of another one, grants nothing new for a TTL. Then what nobody has told of the lost account
// counts as used by others: what those had who were gone, if as many have told as were heard of; otherwise all that
// others may have come to have. Of limits that use leaves again that is all there is, for as long as use counts.
// Of a period it would count to the end, so the account grants no more of a period than those believe
// who are heard of: more only once they have heard that it may.
//
// # What is not covered
//
// A process that asks a new account before anybody has told of a lost one gets what it asks for, unless it
// doubts that the account is the first (Holder.Doubt). Nobody knows of a process that came after the last answer that anybody has who is left. A process without
// calls hears little: of a period it knows what others had as of its last beat, and some more. Calls
// that ask (Ask) get of a period what there is, whatever others believe. And calls that still run in a
// process that is cut off count nowhere, once their Tail is over, until the process is heard of
// again.
//
// # Stability
//
// Experimental: any release may change it.
package parts
