// Package mock is a simulated OpenAI-compatible model server: an http.Handler that answers as
// a provider does, at a configured speed, within limits of its own that are exact.
//
// A gateway that governs traffic can only be judged against an upstream whose behaviour is
// known to the token. Neither a real provider nor a stub with a fixed body is one: the former
// shows no counters, the latter has no capacity, no limits, no clients that leave in mid-stream.
// The mock has them, and counts them (Stats). It shares no code with the gateway it judges.
//
//	request ─► valid? ─► drawn or hooked error? ─► limits ─► slot ─► tokens ─► settle
//	             │400/401        │4xx, 5xx            │429    │queue    │ one a chunk
//
// # Time
//
// A request runs when it has got a slot (Config.Slots; the queue is first come, first served,
// and silent). Its first token is due FirstToken later, and token i of each choice i /
// TokensPerSecond after the first. The schedule is absolute, so nothing drifts. A plain answer
// takes as long as a streamed one, and is sent when its last token is due.
//
// Only time.Now, time.Since and timers are used, and no goroutine outlives a request: the
// server runs in a testing/synctest bubble, where a minute takes no time.
//
// # Tokens
//
// Prompts are counted by PromptTokens. An answer consists of words from a short list,
// one a token. It is as long as the hook says, else exactly as long as the request's bound
// (max_completion_tokens, max_tokens or max_output_tokens), as of a model that does not know
// when to stop, else Config.OutputTokens. An answer that the bound has ended has finish_reason
// "length", or status "incomplete". Config.MostOutput ends it earlier. A tool call without a hook is min(bound, OutputTokens)
// long and whole, or runs "echo hi" if one of the tools runs commands, as those of coding agents do. A call whose last message is a tool's result is answered in text.
//
// With a prefix cache (Config.PrefixCache), the beginning of a prompt that an earlier one had is reported as cached, in blocks of 64
// tokens; it is compared as JSON text. Otherwise nothing is cached, but on messages the blocks marked with cache_control are reported as if
// they were: in system as read from the cache, in messages as written to it.
//
// Prompt tokens are produced when the request is admitted. An output token is produced when
// its event has been written and flushed without error or, in a plain answer, when its time
// has come. When the client goes, production stops at once.
//
// # Limits
//
// TPM and RPM hold over every rolling 60 s, to the nanosecond: an amount booked at t counts
// at each now with now-60s < t ≤ now. Requests that were not admitted count nothing. The times
// of bookings are those of Config.Accounting. A refusal is a 429 whose Retry-After is true: a
// client that comes back then finds room, unless others came in between. It is an upper bound
// while running requests may still give tokens back. A request that can never fit is refused as
// "Request too large", without Retry-After and with x-should-retry: false.
//
// # Objects
//
// A response with background: true is answered as queued. It is produced at once all the same,
// and shown as done from the second request for it on; a batch is from the first.
//
// # The hook
//
// A test steers a single request with the field "mock" in its body. Providers pass over fields
// they do not know, and gateways pass them on, so it can stay in place. Tokens are counted
// over all choices together; K may be 0.
//
//	"mock": {
//	  "output_tokens": N,     // length of each choice; a bound of the request still cuts it
//	  "error_status": 503,    // answer with this error (400 to 599), before limits and slot
//	  "hangup_after": K,      // cut the connection after K tokens; in a plain answer, after half the body
//	  "error_after": K,       // after K tokens an error event and the end, no [DONE]; plain: a 500
//	  "stall_after": K,       // after K tokens nothing more, until the client leaves
//	  "bad_sse": true,        // one event that does not end: up to 8 MiB without a line break
//	  "first_token_ms": T,    // instead of FirstToken
//	  "token_ms": T,          // instead of 1 / TokensPerSecond; 0 = all at once
//	  "usage": "absent",      // instead of Config.Usage; "absent" also takes it out of plain answers
//	  "crlf": true,           // CRLF line ends in streams
//	  "comments": true,       // ": ping" before each event
//	  "id": true              // an id line in each event; "time": the time of its making, in ns since 1970
//	}
//
// Of several faults in one hook the last counts. A fault at more tokens than the answer has
// does not happen.
//
// # Endpoints
//
// chat/completions, completions, responses and Anthropic's messages (each plain or streamed),
// messages/count_tokens, embeddings, moderations, images and audio, models and models/{id}; the
// objects of one account, in memory and visible to everybody with the key: responses by id, files,
// uploads, batches and fine_tuning/jobs (both are done at the first request for them),
// vector_stores; and realtime, a websocket. Each with or without /v1; and of its own GET /_stats
// and POST /_stats/reset, which need no key. All else is OpenAI's 404.
package mock
