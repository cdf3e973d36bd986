// Package upstreams decides which of a pool's upstreams a call goes to, and what is
// believed of each of them.
//
// # Problem
//
// A pool may have several upstreams, and any of them may refuse, fail, or say nothing
// for minutes. Who goes on sending there makes callers wait for nothing; who gives one
// up at its first error loses capacity to a single bad call; and who tries again at
// once, with all calls that were refused, is refused again.
//
// # Picture
//
//	        ┌─ Set ─────────────────────────────────┐
//	Choose ─► wheel: by weight, among who is ready  ├─► a try ─► Report
//	        │   ▲                                   │              │
//	        │ Member: breaker   (does it work?)   ◄─┼──────────────┘
//	        │         cooldown  (did it say when?)  │
//	        │         limits    (what does it allow?)──► Cuts, for the governor
//	        └───────────────────────────────────────┘
//
// # Rules
//
// The wheel is smooth weighted round robin: of weights 3 and 1 every fourth call goes to
// the second, and never two in a row.
//
// A breaker opens when half of at least five calls of the last 30 s failed, for 5 s, and
// twice as long each time a probe fails, up to a minute. Then a real call is the probe, and
// another one after as long, if it has not ended by then; its success closes the breaker.
// An upstream whose breaker is open and that still answers, if with errors or not every
// call, is used where there is no other: its own answer says more than ours, and nobody
// can shut a pool for all others by calls that make it fail, or that last too long. One
// that does not answer at all is not.
//
// Who says that it is busy is left alone for as long as it says, five minutes at most;
// without a time for a second, and twice as long each time it says so again, up to half
// a minute.
//
// Limits that an upstream declares count where they are lower than its part of the
// pool's, once three answers in a row have declared them, and for five minutes after
// the last that did. Where it declares several, by
// model, the largest counts: the pool is what all its models have together.
//
// What an upstream cannot take is cut from the pool by its weight. If all are busy, or
// those that work, all is cut until one may be called, or probed. If none works, nothing
// is, for calls are to be told so at once.
//
// The package has no clock: all verbs take the time. It knows of HTTP what Read looks
// for in headers.
package upstreams
