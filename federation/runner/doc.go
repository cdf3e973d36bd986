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
// One goroutine a pool, and one beat under way at a time: the answer to a beat that was
// followed by another would not be taken anyway. What the account shows is read beside the
// beats, so that a store that is far away delays none. Nothing here is on the way of a request:
// a store that hangs costs grants, which expire, and no call waits for it.
//
// A beat is never sent twice. After an error the next one, which says all that it said, is
// made when the breaker allows it: after a tenth of a second, and twice that after each
// further error, up to two seconds.
//
// Tenants' own limits, and pools' calls at once (LimitsRunner), are of many owners, and few of them in use: one goroutine
// beats for all that are, many in one round trip. A call may wait for a part of these, so one
// that finds none is beaten for at once, and again as soon as that may help. Nobody counts alone
// before the store has been silent for as long as parts hold.
//
// Calls that go only if the store lets them in (Call) are told of at once, those of one tenant and its
// teams together, and one batch after the other: the answer to a beat that was followed by another is worthless. Who
// has given up by then is not let in. What is used no more is told in the next tick where such calls come.
//
// A node that was fenced stops for good: another process has its name. Its calls go on, and
// so do those of one that is cut off: they count with the others for a Window. When that is
// over somebody may be told (Config.Uncounted), and end them.
package runner
