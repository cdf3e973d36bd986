// Package reserve keeps reservations: leases of calls that somebody else makes, who asks for them and ends
// them over a network. It knows no protocol; package admissionserver serves two.
//
//	Reserve ─► asking, waits in the door ─► open ──Commit, Cancel──► ended, remembered for a while
//	               │ refused, asker gone      │ ▲                      ▲       │
//	               ▼                          │ └──Progress            │       └── Commit once more: the same answer
//	             nothing                      └── ttl over ─► estimated ───Commit──► charged what it lacked
//
// # Rules
//
//  1. A reservation belongs to whoever made it. Nobody else's id leads to it, or tells that it is there.
//  2. Whoever asks and goes away holds nothing: the wait ends, and a lease that was just granted is given back. A cancel that
//     is faster than its Reserve has that one refused.
//  3. A reservation of which nothing is heard for its ttl ends as a call whose caller has gone: what the
//     model server may have produced is charged. A Commit that comes later is charged for what that lacked. Nothing
//     is given back: the minute that it counted in may be over.
//     With a tenant's own key the ttl is bounded, and so is the age of the reservation.
//  4. All calls may be repeated. A Reserve with the id and content of an open one gets the same answer.
//  5. The number of reservations, open or asking, is bounded. A tenant may have as many as there are places
//     left, so that one that never commits leaves room for others. As many that have ended are remembered.
//
// One lock guards the book. It is held for a few map operations: the governor is asked, and calls are ended, outside of it. Whoever takes a
// reservation out of the book, be it Commit, Cancel or its timer, is the one who ends it.
package reserve
