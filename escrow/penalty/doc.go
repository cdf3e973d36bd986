// Package penalty finds how many calls one tenant may run at one upstream at once, from how its calls end there: additive
// increase, multiplicative decrease.
//
//   - A call that the upstream fails (a status of 500 and above, no answer in time, an answer that breaks off) halves the
//     number, from as many as the tenant has running.
//   - A call that succeeds while the tenant runs as many as it may adds a part of one: a whole one, once as many calls have
//     succeeded as may run.
//   - All else says nothing of what the upstream can take of the tenant: an error of the caller's own, a call that its caller
//     leaves, one that never reached the upstream. Above all a refusal by the governor says nothing, so a low number is no
//     reason for a lower one.
//
// A burst of failures counts once: a call that began before the last decrease was one of the many that ran then.
//
// A number that failed again and again is tried less and less often, because each try costs everybody at the upstream something: each
// decrease doubles how many successes an increase takes, up to 16 times, and each increase beyond the number that failed halves it.
//
// The number is forgotten when it has come back to all that anybody may run, or when no call has failed for a while ([Memory]).
//
// # Stability
//
// Experimental: any release may change it.
package penalty
