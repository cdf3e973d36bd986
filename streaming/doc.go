// Package streaming reads what a model server answers while the answer passes through.
//
// # Problem
//
// A gateway that governs tokens has to know what an answer cost, and when it ended. Both stand in the
// answer itself, scattered over hundreds of small events, in places that differ from server to server. The
// bytes belong to the client: they must arrive as they were sent, at the moment they were sent, whatever the
// gateway thinks of them. And an answer ends in more ways than one: whole, cut off, with an error in the
// middle, in silence, or because nobody listens any more. Whoever holds capacity for it must hear of exactly
// one end.
//
// # Picture
//
//	upstream body ──► Body ─────────────────────────────────────► client
//	                   │  Scanner: bytes → events, raw bytes kept
//	                   │  Meter:   event → deltas, usage, proper end or failure
//	                   │  withhold the usage chunk nobody asked for
//	                   │  idle timer around each wait for upstream
//	                   └► End(Result), once
//
//	upstream body ──► Whole ────────────────────────────────────► client
//	                   │  finder: top-level "usage" of a plain JSON answer
//	                   └► End(Result), once
//
// Scanner, Meter and finder are pure: no clock, goroutine, lock or I/O. Body and Whole are the shells which
// own the lock, the timer and the upstream body.
//
// # Rules
//
//   - Bytes are forwarded untouched and never held back: comments, ids, line ends, odd spacing. What goes
//     missing is a withheld usage chunk and the half event of a broken stream; what is added is one error
//     event after a break. There is never a made-up [DONE].
//   - Memory is bounded whatever upstream sends: an event over MaxEvent is forwarded in pieces, unread.
//   - Usage is the last one reported, never a sum: servers that report on each chunk report totals.
//   - Deltas are counted whether or not usage will come, so that a stream without usage can be charged by
//     estimate. What had arrived when the client went is counted too.
//   - What is not understood is forwarded and counts for nothing. It is no reason to break an answer.
//   - The stream ended properly when its dialect says so: [DONE], a finish_reason for every choice seen, or a
//     terminal event such as response.completed. A clean end of the connection alone is not an end, except
//     right after an event too large to read, which may have been the terminal one.
//   - No callback runs under a lock.
//
// # Non-goals
//
// No decoding of content encodings: ask upstream for identity. No rewriting of events, no conversion between
// dialects. JSON is read for its structure, not validated: a document whose brackets and strings close is taken as it stands. Object
// keys are compared as written, so a key spelled with escapes is not recognised.
//
// # Further reading
//
// The event stream format: https://html.spec.whatwg.org/multipage/server-sent-events.html.
package streaming
