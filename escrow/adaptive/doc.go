// Package adaptive finds out how many calls an upstream can take at once, from how
// long it lets them wait.
//
// # Problem
//
// An own server, or a provider that does not tell its limits, has a knee: up to so many
// calls at once each more is served beside the others, and behind it each more only waits.
// Where that is nobody knows, and it moves: with the model, the length of prompts, the
// number of replicas. Too low a limit leaves capacity unused; too high a one makes a
// queue where nobody shares it fairly.
//
// How long a call runs says nothing of that: it is long because its answer is. And who
// takes a refusal of his own gateway for a sign of overload lowers the limit, refuses
// more, and ends at one call at a time.
//
// # Picture
//
//	first token after   ▲                 ╱
//	                    │               ╱
//	                    │             ╱   each call more waits
//	             base ──┼────────────╱
//	                    └───────────┴────────► calls at once
//	                              knee
//
//	calls that wait upstream = calls at once × (latency − base) ÷ how long calls run
//
// which is Little's law, and holds whatever the calls are. So the knee is where that
// many less would run (Gradient). It needs no slope and no guess of a gain.
//
// # Rounds
//
// Steps are not of time. A round is made of calls that began since the limit was
// last changed, half as many as the limit, 5 to 32, and of more where they come within a second. So it
// has seen what the last change did, and where few calls come nothing moves.
//
//	busy   the excess over the base is more than noise (two standard errors), and more
//	       wait than three quarters of a call, and than 1 in 64 where first tokens say
//	       so, 1 in 10 where whole answers do.
//	       Gradient: the limit is what runs less what waits, at least half of it.
//	       AIMD:     busy is a latency of 1.2 bases; then nine tenths.
//	       A round ends at its half if it is busy by three standard errors.
//	full   else, if half of the round's calls saw no slot left, or others came to none since: the limit grows, until the
//	       first busy round by a half. Then Gradient holds for six rounds and tries 1
//	       more, and again 1 or half of what it has grown since, as long as nothing waits; AIMD 1 more each round.
//	light  else, or where not half of the limit runs, nothing changes.
//
// # The base
//
// It is the time that a kind of call takes if nothing waits: by model, streamed or not, and size (of
// the prompt, where the first token is waited for; of the answer, where all of it is).
// So slow models beside fast ones are no overload. Kinds that are not known yet, or too many to be
// remembered, have one base together, which is vaguer. A base is the median of the first seven calls
// of a kind, and then follows what rounds see in which at most four fifths of the limit run.
// Where there are no such rounds, one in five minutes is drained: it runs at four fifths.
// Else the base would be of another day; and if it followed the others, it would take in their
// queue, the limit grow by that, and so on.
//
// A drained round is also a trial. If it does as much as the one before it, the limit was
// beyond the knee, whatever the base says, and stays where it was drained to. If its calls wait longer
// than those before, though fewer run, the knee has fallen, and it is no rest. And a server that
// all calls share is slower the more there are, without any queue, and does more: so where the first
// busy round is far above where the base was measured, and latency not twice that, a
// drained one comes first, and the limit grows on as long as a fifth more does more.
//
// Where the limit fell to three fifths in two rounds or more, or cannot fall, and calls take as long as before,
// it was no queue: the upstream has become slower. Then all bases are learned anew.
//
// # Rules
//
//   - Min ≤ Limit ≤ Max, always.
//   - Only the behaviour of the upstream counts: latency, and its refusals and timeouts
//     (Overloaded), where these are more than 1 in 12 of late; then all that came of one limit
//     count once. Fewer come of other things, such as one upstream of many, and would end at
//     a limit of few calls. Nothing else lowers it.
//   - It grows only if it was the limit that calls were held by.
//   - Memory is bounded, whatever names models have.
//
// # Servers
//
// A server that batches continuously begins every call at once, so nothing waits until its memory is full. What it tells of itself
// (Load) says how many calls in flight it has room for: of those that run, what calls that wait leave, and of its memory, as many as
// would fill what should be used. The limit rises no further than that. It falls to it, by at most a half, if it was too little three
// times in a row, and only when no more calls are in flight than it allows. A Load of four seconds ago says nothing.
//
// # Together
//
// Gateways in front of the same upstream find one limit (Fleet), because limiters that see their own calls alone
// add up to more than the knee, the more the fewer calls each has. Each gateway tells the others its samples
// (Note). The one that has been there longest judges, and all go by its limit. Until all of them know a change of it, no
// samples count, because calls began under either limit. Who may use how much of it is not decided here.
//
// # What it is not
//
// It has no clock and no queue, and does not know who runs: package escrow has the slots,
// and package governor tells both. It sees no slower flow of tokens behind the
// first: that is what batching costs, and throughput grows with it. It reads no metrics.
//
// Sources: Brakmo, Peterson, "TCP Vegas", IEEE JSAC 13(8), 1995 (what waits, from latency
// above a base, and how much of that is wanted); Cardwell et al., "BBR", ACM Queue 14(5),
// 2016 (rounds, and draining to measure the base); Ha, Rhee, Xu, "CUBIC", 2008 (slow
// about the last known knee, faster behind it).
//
// # Stability
//
// Experimental: any release may change it.
package adaptive
