// Package runner runs the protocol of package federation: it beats for the pools of one
// process, and puts what the store grants in force.
//
// # Picture
//
//	Pool ──► Pressure ──► Node.Due? ── no ──► look again in 25 ms
//	                          │ yes
//	Pool ──► Report ────► Node.Step ──► Store.Beat, 1.25 s at most
//	Pool ◄── Apply ◄───── Node.Step ◄──┘  or an error: the breaker opens
//
// # Rules
//
// There is one goroutine for each pool, and one beat under way at a time: an answer to a beat that
// was followed by another would not be taken anyway. What an account shows to readers is fetched
// beside the beats, so that a store that is far away delays none of them. Nothing here is on the way
// of a request: a store that hangs costs grants, which expire, and no call waits for it.
//
// A beat is never sent twice. After an error the next one, which says everything that it said,
// follows when the breaker allows it: after a tenth of a second, and after twice that for each
// further error, up to two seconds.
//
// Tenants' own limits, and pools' slots and budgets (LimitsRunner), have many owners, few of which
// are in use: one goroutine beats for all that are, many in one round trip. A call may wait for a
// part of these, so one that finds none is beaten for at once, and again as soon as that may help.
// A process counts by itself only after the store has been silent for as long as parts hold.
//
// Calls that go only if the store lets them in (Call) are sent at once: those of one tenant and its
// teams together, one batch after the other, since the answer to a beat that was followed by another
// is worthless. A call whose caller has given up by then is not let in. Where calls ask, what
// is used no more is told with the next tick.
//
// A node that was fenced stops for good: another process has taken its name. Its calls go on, as do
// those of a node that is cut off: the other nodes count them for a Window. When that is over
// somebody may be told (Config.Uncounted) and end them.
//
// # Stability
//
// Experimental: any release may change it.
package runner
