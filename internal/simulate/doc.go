// Package simulate plays traffic against the production admission code in
// virtual time, next to oracles that say what would have been fair.
//
// How fairly a gateway shares a limit cannot be seen from one request, and not
// from a load test of a minute either: it takes many tenants that behave in
// different ways, minutes of saturation, the same again with other random
// numbers, and something to compare with. Package escrow takes the time as an
// argument everywhere, so ten minutes of a pool take a fraction of a second.
//
//	file ──► Scenario ──► plan (of one seed) ──► world ◄──► escrow.Pool; of several nodes:
//	                         │                    │         one each ◄──► federation.Account
//	                         │                    │ virtual time: arrivals, streams,
//	                         │                    │ patience, backoff, retries, letters
//	                         ▼                    ▼
//	                      oracles ──────► audit ◄── Trace ──► log (JSON lines)
//	                                       │
//	                     figures, table, JSON, HTML report
//
// Rules that make the figures worth believing:
//
//   - Figures are computed from the trace: what was offered, admitted, refused
//     and used, as seen from outside. None is read from the books of the pool. The
//     log holds the whole trace, so anybody can compute them again.
//   - What is shared out is counted as the provider counts it, and rolling sums
//     are taken over every instant from the first second on, not over windows.
//   - One stream of random numbers a tenant, others for its manners and for the nodes
//     that it comes to: what one tenant is answered does not change what others ask for.
//     The same scenario and seed give the same log, byte for byte.
//   - The oracle is fluid weighted max-min over the tree (GPS): at every instant,
//     in steps of 50 ms, the rate goes to those who want something just then. It
//     sees nothing of the future. The clairvoyant oracle, which shares out each
//     window knowing all its demand, stands beside it, and the distance between
//     the two says how much of a misallocation nobody could have avoided.
//   - An oracle's tenant with workers wants no more than these can take: each
//     waits for its request to run, and thinks 10–50 ms. Unknown lengths, refusals
//     and patience are the scheduler's trouble; the oracle knows true lengths,
//     serves streams no faster than they flow, and forgets what nobody waits
//     for any more. It may catch up one second of rate that was not wanted.
//   - If a pool has several limits, the oracle shares out dominant shares (of the limit that a
//     request takes most of), as many in each step as no limit stands against. A tenant's
//     amount in a window is its part of the limit of which it has most.
//
// # Scenario files
//
// YAML; unknown keys, wrong types and contradictions are errors. Durations have
// units. What is shown is the default, unless it is marked:
//
//	name: mixed                     # of the file
//	about: ""                       # one sentence for table and report
//	duration: 10m
//	warmup: 60s                     # left out of the averages; rolling_max counts from t = 0
//	seeds: [1, 2, 3, 4, 5]
//	pool:
//	  tpm: 600000                   # 0 turns an axis off
//	  rpm: 0
//	  concurrency: 0
//	  interactive_reserve: 0        # slots that background calls leave free
//	  burst: 10s
//	  accounting: admit_max         # admit_max | production | settle
//	  headroom: 0
//	  max_queue: 10000
//	  ticket_wait: 10s              # 0s keeps no places
//	cost: {dist: lognormal, mean: 1000, sigma: 0.8, min: 1, max: 8000}   # tokens; or {dist: constant, mean: 100}
//	classes: []                     # instead of cost (or inside of it): streamed calls, each
//	                                #   {share, median, sigma, max, tokens_per_second, speed_sigma,
//	                                #    first_token: 300ms..700ms, input: {mean, sigma, min, max}}
//	service: 0s                     # how long a request runs; or {mean: 10s, sigma: 1, max: 100s} (max: 10 × mean)
//	estimates: exact                # exact | learned
//	refuse: wait                    # wait | deny | deny_hinted
//	patience: 15s                   # of open-loop callers
//	nodes: {us-east: 1ms, eu-west: 35ms}   # not the default: processes that share the pool by way of
//	                                # a store, and how far each is from it, one way
//	tenants:                        # required
//	  - {name: a, weight: 4, load: {kind: open, tokens_per_second: 1000}}   # or requests_per_second
//	  - {name: b, load: {kind: backlogged, workers: 32}}
//	  - {name: c, load: {kind: onoff, on: 10s, off: 20s, tokens_per_second: 5000, start: 0s}}
//	                                # without start: at a random point of the first cycle
//	  - {name: d, load: {kind: absent}}              # until an event
//	  - {name: org, weight: 2, teams: [{name: x, weight: 3, load: {…}}]}
//	  - {name: t, zipf: {count: 1000, exponent: 1.1, weights: [8, 4, 1], load: 1.5}}
//	  - {name: u, nodes: [us-east], load: {…}}       # or {us-east: 0.1, eu-west: 0.9}; else all alike
//	  - {name: v, rotate: {period: 120s, swing: 0.9, phase: 0.25}, load: {…}}
//	events:
//	  - {at: 150s, tenant: org/x, load: {kind: backlogged, workers: 32}}
//	  - {at: 60s..115s, every: 120s, tenant: d, load: {…}}   # drawn anew each time; repeated until the end
//	  - {at: 300s, cost_factor: 3, tenant: a}                # without tenant: all
//	  - {at: 180s, partition: eu-west, for: 30s}             # cut off from the store
//	  - {at: 240s, crash: us-east, for: 0s}                  # until another process is there
//
// A tenant may also have priority (interactive or background), floor_tpm, credit,
// and cost, classes or service of its own, which its teams inherit. A zipf
// stands for count tenants t-0001 …, which all ask openly: the k-th for k^-exponent
// of load times the limit, together; weights are drawn from the list once, the
// same for every seed. cost_factor multiplies the mean of a cost, and the median
// of a class; what exceeds max is cut there as ever.
//
// Callers: a backlogged worker asks again 10–50 ms after its request was served,
// and waits as long as its load lasts. Under deny, callers come back after 0.25 s,
// doubling to 4 s, ±50 %. Under deny_hinted they come back as Retry-After says (whole
// seconds), 5–35 ms late, and say by their retry count that they do. Both kinds
// give up at the end of their patience.
//
// Nodes: each is a process with a pool of its own, which gets its part of the limit from a
// store (package federation). Requests come to the nodes of their tenant by its parts; of a
// tenant that rotates these wander once around the nodes in a period, between 1 − swing
// and 1 + swing of what they are, and phase says where they begin, in turns. A way to the store
// takes 0.9 to 1.2 times the delay. A process that crashes takes with it who waits, and cuts
// off what runs; workers come to another one 1–2 s later, and requests come to those that
// are up. Slots are not shared: concurrency is for one node.
//
// # Not here
//
// HTTP, tenants' own limits, and the time that the gateway and the store themselves
// take.
package simulate
