// Package scenario has the files that describe traffic upon one pool: their types, their reader, and those that are known by
// a name. It plays nothing; package simulate does.
//
// # Files
//
// YAML; unknown keys, wrong types and contradictions are errors. Durations have
// units. The values shown are defaults, unless marked:
//
//	name: mixed                     # of the file
//	about: ""                       # one sentence for table and report
//	duration: 10m
//	warmup: 60s                     # left out of the averages; rolling_max counts from t = 0
//	seeds: [1, 2, 3, 4, 5]
//	pool:
//	  tpm: 600000                   # 0 turns an axis off; 0 if the pool has itpm or otpm
//	  rpm: 0
//	  itpm: 0                       # input tokens, and output tokens
//	  otpm: 0
//	  concurrency: 0
//	  adaptive: gradient            # not the default: gradient or aimd moves the limit, up to concurrency
//	  min_concurrency: 4            # where an adaptive limit begins, and its least
//	  knee: 0                       # calls that the model server serves at once; the others wait there. 0: it serves all
//	  interactive_reserve: 0        # slots that background calls leave free
//	  hold_back: 0                  # part of the slots that calls of priority 0 leave free; of others less, and of 9 none
//	  soft_cap: 0                   # part of the slots that one tenant has at most, once half of them are in use; 0 is all
//	  upstreams: [{name: a, weight: 1, order: 0, tpm: 1000, rpm: 0, itpm: 0, otpm: 0, concurrency: 0}]   # not the default: with limits of their
//	                                # own; those of the pool are their sums then, unless it has its own
//	  cache: 0                      # tokens of conversations that each of the upstreams keeps
//	  affinity: session             # session | none: whether calls of a conversation go to the same of them
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
//	  - {name: b, load: {kind: backlogged, workers: 32}}   # with turns: 10, a conversation of so many calls each
//	  - {name: c, load: {kind: onoff, on: 10s, off: 20s, tokens_per_second: 5000, start: 0s}}
//	                                # without start: at a random point of the first cycle
//	  - {name: d, load: {kind: absent}}              # until an event
//	  - {name: org, weight: 2, teams: [{name: x, weight: 3, load: {…}}]}
//	  - {name: t, zipf: {count: 1000, exponent: 1.1, weights: [8, 4, 1], load: 1.5}}
//	  - {name: u, nodes: [us-east], load: {…}}       # or {us-east: 0.1, eu-west: 0.9}; else all alike
//	  - {name: w, upstreams: [a], load: {…}}       # may use only these; default: all
//	  - {name: v, rotate: {period: 120s, swing: 0.9, phase: 0.25}, load: {…}}
//	events:
//	  - {at: 150s, tenant: org/x, load: {kind: backlogged, workers: 32}}
//	  - {at: 60s..115s, every: 120s, tenant: d, load: {…}}   # drawn anew each time; repeated until the end
//	  - {at: 300s, cost_factor: 3, tenant: a}                # without tenant: all
//	  - {at: 360s, knee: 16}                                 # 0: the server begins no call
//	  - {at: 180s, partition: eu-west, for: 30s}             # cut off from the store
//	  - {at: 200s, lost: a, for: 30s}                      # an upstream: calls break off, and none begins there
//	  - {at: 240s, crash: us-east, for: 0s}                  # until another process is there
//
// A tenant may also have priority (0 to 9, interactive as 9 or background as 0), floor_tpm, credit,
// and cost, classes or service of its own, which its teams inherit. A zipf
// stands for count tenants t-0001 …, which all ask openly: the k-th for k^-exponent
// of load times the limit, together; weights are drawn from the list once, the
// same for every seed. cost_factor multiplies the mean of a cost, and the median
// of a class; a cost above max is cut there as ever.
package scenario
