// Package intake bounds the memory of request bodies. A caller asks for memory before it reads a
// body, and gives it back when nothing holds the body any more: [Intake.Ask], [Claim.Grow],
// [Claim.Release].
//
//	Content-Length ≤ Small ──► a counter that all share: one atomic addition
//	        larger         ──► book: fits the tenant's bound and the process's? ──► granted
//	   chunked, larger     ──► the same, in steps that double                   └─► waits, or is refused
//
// # Rules
//
//  1. Small bodies have a quarter of the process's memory. Larger ones, and small ones if that
//     quarter is used up, share the rest by the book.
//  2. No tenant has more than its bound, and all tenants together no more than the process's.
//  3. Among tenants that wait, the one that has least comes first; among equals, and within a
//     tenant, the one that waits longest. If that one does not fit yet, nobody overtakes it, so
//     large bodies are not starved by smaller ones.
//  4. A body of unknown length grows while it is read. Growing bodies hold memory while they wait
//     for more, and could wait for each other for ever; so only one of them waits, ahead of all
//     others, and a second one is refused.
//  5. A tenant with a bound on concurrent calls has no more than [Ask].Readers bodies on their way
//     in at the same time. Bodies that have arrived do not count there, so calls can queue.
//
// The book ([book]) is pure: it neither knows a clock nor waits. [Intake] puts a lock, timers and
// channels around it.
//
// # What is counted
//
// Bodies of 4 KB to 1 MB are read into buffers that are used again, if the caller wants that. A transport
// may read a body after its call has ended, so a buffer has users: the claim, and each [Sent] that was opened
// and not closed.
//
// What is counted is the room in the buffer that a body has asked for; a buffer that is used again may be a
// quarter larger. While a buffer grows, the one
// before it, at most half as large, is garbage that is not counted. Decoders make garbage as well.
// So the memory of a process that is full of bodies is about twice the bound; docs/deploy.md has
// figures.
package intake
