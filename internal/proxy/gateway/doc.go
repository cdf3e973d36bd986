// Package gateway is the HTTP front: it reads a call's head, has it admitted, passes it on, meters the answer, and
// ends the lease.
//
// # The way of one request
//
//	serve     ─► route.Find    which route
//	          ─► authenticate  which tenant
//	          ─► readBody      query, strict head (package head); bytes kept, forms to be written anew
//	          ─► choosePool    which capacity; the objects to which the body refers are the caller's
//	          ─► admit         clamp, and package admission: estimate, one call at a time for an
//	                           Idempotency-Key, Acquire. This is where it waits for limits
//	          ─► firstTry      which of the pool's upstreams
//	          ─► forward       send tries one upstream after the other; takeOver has
//	                           streaming.Body meter the answer
//	ServeHTTP ─► pass          gives the answer to the client
//	          ─► finish        lease ended if it is not, counters, and report: one log line, and the span
//
// A call value goes this way once, left to right, and carries everything. It holds the life of a governed call
// (admission.Call), and adds HTTP to it.
//
// Routes to objects that an upstream keeps (files, batches, stored responses …) go the same way: the objects that
// an answer shows are recorded before it is passed on, and lists are filtered (package stored). A realtime
// session is a call whose responses are calls of their own (package realtime). The differences between protocols
// are values (package dialect).
//
// A call is tried at one upstream after the other until there is an answer to pass on
// (send), and admitted anew if all of them have asked for a pause. The state of upstreams is kept by package
// upstreams, and the governor is told of it (tellHealth).
//
// Answers of the gateway's own (models, usage) go no further than authenticate. A list
// of models has those that the policy names, and those that upstreams list for its
// patterns (modelList in upstream).
//
// # Rules
//
// The request body is untrusted: the members that decide about it (model, stream, limits) must mean the same to
// every JSON reader, or the call is refused. All other bytes pass as they are; forms and queries are written anew
// from the fields that were read. The snapshot of policies is loaded once for each request; only a call whose
// tenant or pool has gone from the policy in force, before anything was sent, begins again with that policy. A
// lease ends on every way out. Output of the upstream is charged, even if nobody reads it to the end. The
// upstream's key never reaches a tenant, nor a tenant's key the upstream.
//
// # Limits of the package
//
// It decides nothing about shares and limits: that is package governor's task. It talks to
// no store.
package gateway
