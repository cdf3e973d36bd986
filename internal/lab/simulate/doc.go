// Package simulate plays traffic against the production governor in
// virtual time, next to oracles that compute a fair division.
//
// How fairly a gateway shares a limit cannot be seen from one request, and not
// from a load test of a minute either: it takes many tenants that behave in
// different ways, minutes of saturation, the same again with other random
// numbers, and something to compare with. Package governor takes its time from
// a clock that it is given, so ten minutes of a pool take a fraction of a second.
//
//	file ──► Scenario ──► plan (of one seed) ──► world ◄──► governor.Governor; of several nodes:
//	                         │                    │         one each ◄─ sharing ─► federation.Account, parts.Account
//	                         │                    │ virtual time: arrivals, streams,
//	                         │                    │ patience, backoff, retries, letters
//	                         ▼                    ▼
//	                      oracles ──────► audit ◄── Trace ──► log (JSON lines)
//	                                       │
//	                     figures, JSON; package report: table, HTML
//
// Rules that make the figures worth believing:
//
//   - Figures are computed from the trace: the tokens offered, admitted, refused
//     and used, as seen from outside. None is read from the books of the governor. The
//     log holds the whole trace, so anybody can compute them again.
//   - Tokens are counted as the provider counts them, and rolling sums
//     are taken over every instant from the first second on, not over windows.
//   - One stream of random numbers a tenant, others for its manners and for the nodes
//     that it comes to, so the answers to one tenant do not change the requests of others.
//     The same scenario and seed give the same log, byte for byte.
//   - The oracle is fluid weighted max-min over the tree (GPS): at every instant,
//     in steps of 50 ms, the rate goes to those who want something just then. It
//     sees nothing of the future. The clairvoyant oracle, which shares out each
//     window knowing all its demand, stands beside it, and the distance between
//     the two says how much of a misallocation nobody could have avoided.
//   - An oracle's tenant with workers wants no more than these can take: each
//     waits for its request to run, and thinks 10–50 ms. Unknown lengths, refusals
//     and patience are the scheduler's trouble; the oracle knows true lengths,
//     serves streams no faster than they flow, and forgets requests for which nobody
//     waits any more. It may catch up one second of rate that was not wanted.
//   - If a pool has several limits, the oracle shares out dominant shares (of the limit that a
//     request takes most of), as many in each step as no limit stands against. A tenant's
//     amount in a window is its part of the limit of which it has most.
//
// How callers, model servers and nodes behave is in docs/scenarios.md. Rates and slots are demanded, granted and kept by the packages that a
// gateway uses for that (governor/sharing, federation, federation/parts); what package runner does with
// goroutines is done by a member. A store that does not answer is asked again as a node sees fit, without a breaker.
//
// Beside the governor the same callers can be played against baselines: what its operator would have without llmgov.
//
// # Not here
//
// HTTP, tenants' own limits, and the time that the gateway and the store themselves
// take.
package simulate
