// Package upstreams chooses the upstream for a call, and keeps the health of each of a
// pool's upstreams.
//
// # Problem
//
// A pool may have several upstreams, and any of them may refuse, fail, or stay silent
// for minutes. A gateway that keeps sending there makes callers wait in vain; one that
// gives an upstream up at its first error loses capacity to a single bad call; and one that
// retries all refused calls at once is refused again.
//
// # Picture
//
//	        ┌─ Set ─────────────────────────────────┐
//	Choose ─► home, of a conversation, or           │
//	        │ wheel: by weight, of ready members    ├─► a try ─► Report
//	        │   ▲                                   │              │
//	        │ Member: breaker   (does it work?)   ◄─┼──────────────┘
//	        │         pauses    (of which calls?)   │
//	        │         limits    (what it declares)  ├──► Cuts, for the governor
//	        └───────────────────────────────────────┘
//
// # Rules
//
// The wheel is smooth weighted round robin: of weights 3 and 1 every fourth call goes to
// the second, and never two in a row. It turns among the members of the lowest order of
// which one is ready; those of higher orders are spare.
//
// A call of a conversation does not turn the wheel, but goes to its home, so that it finds its prompt cached. Each conversation
// ranks those members by a hash of its name and theirs, by weight (rendezvous hashing), and its home is the first of them. If that has
// more than its part of the calls in flight by a quarter and one call, the next one takes the call. Nothing is remembered, and
// all gateways agree.
//
// A breaker opens when half of at least five calls of the last 15 to 30 s failed, but not if those of one tenant did and those of others
// were served. A tenant of which that holds has a breaker of its own, and goes elsewhere if it can. It is open for 5 s, and
// twice as long each time a probe fails, up to a minute. Then a real call is the probe, and
// another one after the same time if it has not ended by then; its success closes the
// breaker. An upstream whose breaker is open but that still answers, perhaps with errors or
// only some calls, is used if there is no other: its own answer says more than ours. So is one that
// has failed a single tenant's calls, by all other tenants: nobody can shut a pool for others by calls that make
// it fail, or that last too long. An upstream that does not answer at all is not used.
//
// A busy upstream gets no calls of the [Scope] that it has refused for the time that it asks for, ten minutes at most. Without a
// time it is a second, and twice as long each time it is busy again, up to half a minute. While all scopes pause of which calls
// came in the last minute, it is busy as a whole.
//
// Limits that an upstream declares count if they are lower than its part of the pool's, once
// three answers in a row have declared them, and for five minutes after the last. If it
// declares several, by model, the largest counts, because the pool is for all its models
// together. What others use of a declared limit is left to them: what is missing of it, and was not used by llmgov itself. The pool has what leaves
// each model's limit as much, by the part of its use that is of that model.
// Pools at one [Account] share what is left.
//
// The part of an upstream that takes no calls is cut from the pool, by its weight. If all
// that work are busy, the whole pool is cut until one may be called or probed. If none works,
// nothing is cut, so that calls fail at once.
//
// The package has no clock: all methods take the time. Of HTTP it knows only the headers that a
// [Reader] reads.
package upstreams
