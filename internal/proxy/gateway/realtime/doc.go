// Package realtime governs realtime sessions over websockets: the messages of both sides pass
// through, and each response of the session is held, metered and charged as a call of its own.
//
//	        ┌──────────── clientSide: guard → limits → line ───────────►
//	client  │                 │ asks                                       upstream
//	        │               book: the leases of the session and of its responses
//	        │                 │ begun, deltas, done
//	        ◄──────────── upstreamSide: line ◄── meter ────────────────┘
//
// [Session.Run] has a goroutine for each side, and one for the turns of the user. They share the [line],
// over which events are sent, and the book, which has the lock. The governed call to which the session
// belongs is an interface, [Call].
//
// A session holds a slot and a request as long as it is open, because its lease at rest is exchanged for one
// of a response and back. How it ended is settled by [Call.Settle], exactly once and before anything is
// waited for.
package realtime
