// Package admission is the life of a governed call, whatever protocol its caller speaks: the HTTP
// gateway, a server of another protocol, or a program that has the governor inside it.
//
// # Picture
//
//	Begin ─► Identify   which tenant, by its key or by a trusted name
//	      ─► Route      which pool, and the account that counts the tenant's calls in it
//	      ─► Estimate   Ask → governor.Request: prompt, longest answer, price, identity of retries
//	      ─► Admit      one call at a time for a Retry.Key; the governor; this is where it waits
//	      ─► Send       from here on it is charged as a request
//	      ─► Progress   deltas of the answer, which renew the lease
//	      ─► Answered, Complete, Fail or End    usage → the lease's end, exactly once
//	      ─► Close      ends the call if it has not ended, and counts it if it was turned away
//
// Enter takes the first four steps at once. A call may be tried at several upstreams: BeginTry begins a
// try, Lost notes the usage that a failed one may have caused, and Readmit sends the call back into the queue while its
// upstreams ask for a pause.
//
// A Controller has the policy in force and the governor that enforces it. It puts another policy in
// force as a whole, keeps everything that calls have taught under the one before, and remembers the last
// refusals for those who ask for their reasons. Metrics and spans are written on the way.
//
// # Rules
//
// The policy is loaded once for each call. Only a call whose tenant or pool has gone from the policy in
// force, before anything was sent, begins again with that policy: see Stale. A lease ends on every way
// out. Whatever the upstream produced is charged, even if nobody reads it to the end; a call that broke off
// without a report is charged by estimate, and one that never left costs nothing.
//
// # Non-goals
//
// It reads no body and sends nothing: its caller knows the protocol, and describes the call and its answer. It decides nothing about shares and limits, which is the governor's task.
package admission
