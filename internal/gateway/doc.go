// Package gateway is the HTTP front: it reads a call's head, asks the governor,
// passes the call on, meters the answer, and ends the lease.
//
// # The way of one request
//
//	ServeHTTP ─► find        which route
//	          ─► authenticate which tenant
//	          ─► readBody    query, strict head; bytes kept, forms to be written anew
//	          ─► choosePool  which capacity, and what the body refers to is the caller's
//	          ─► admit       estimate, clamp, one call at a time for an Idempotency-Key,
//	                         Acquire: this is where it waits
//	          ─► firstTry    which of the pool's upstreams
//	          ─► forward     send tries one upstream after the other; takeOver has
//	                         streaming.Body meter the answer; pass gives it to the client
//	          ─► finish      lease ended if it is not, counters, and report: one log line, and the span
//
// Routes to what an upstream keeps (files, batches, stored responses …) are a table,
// objectRoutes, and go the same way: what an answer shows is recorded before it is
// passed on, and lists are filtered (filter). A realtime session has code of its own; each of its
// responses asks the governor as a call does (package realtime).
//
// A call is tried at one upstream after the other until there is an answer to pass on
// (send), and admitted anew if all of them have asked for a pause. What is believed about
// upstreams is up to package upstreams, and told to the governor (believe).
//
// What the gateway answers itself (models, usage) goes no further than authenticate. A list
// of models has those that the policy names, and those that upstreams list for its
// patterns (shelf).
//
// A call value goes this way once, left to right, and carries everything.
//
// # Rules
//
// The request body is untrusted: what decides about it (model, stream, limits) must mean
// the same to every JSON reader, or the call is refused. What is not governed passes byte for
// byte, in a form field by field: forms and queries are written anew from what was read. The snapshot of policies is loaded once for each request; only a call whose tenant or
// pool has gone from the policy in force, before anything was sent, begins again with that
// policy. A lease ends on every way out. What the upstream produced is charged, even if nobody
// reads it to the end. The upstream's key never reaches a tenant, nor a tenant's key the
// upstream.
//
// # What it is not
//
// It decides nothing about shares and limits: that is package governor's task. It talks to
// no store.
package gateway
