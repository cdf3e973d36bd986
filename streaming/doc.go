// Package streaming reads the answer of a model server while it passes through.
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
//	                   │  finder:  the same of an event too large to keep, in passing
//	                   │  withhold the usage chunk nobody asked for
//	                   │  idle timer over all waits for upstream
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
//   - Memory is bounded whatever upstream sends: an event over MaxEvent is forwarded in pieces. Of those
//     no more is kept than the usage in it and its type.
//   - Usage is the last report, count by count, and never a sum: servers that report on each chunk report
//     totals. See below.
//   - Deltas are counted whether or not usage will come, so that a stream without usage can be charged by
//     estimate. What had arrived when the client went is counted too.
//   - Unknown content is forwarded and counts for nothing. It is no reason to break an answer.
//   - The stream ended properly when its dialect says so: [DONE], a finish_reason for every choice seen, or a
//     terminal event such as response.completed. A clean end of the connection alone is not an end, except
//     right after an event too large to read which did not tell its type: it may have been the terminal one.
//   - A chunk costs no allocation and sets no timer. Parts of one answer differ in little more than their text: one
//     that is the same, byte by byte, but for that is known for what it is, and not read.
//   - No callback runs under a lock.
//
// # Usage
//
// Where it stands and what the counts are called, server by server; testdata has answers of each. "in" is
// cached_tokens of prompt_tokens_details, or of what Responses calls it; "out" is reasoning_tokens of
// completion_tokens_details.
//
//	server           place of the usage       input                        cached                   output             reasoning
//	OpenAI, Azure    extra chunk, no choices  prompt_tokens                in                       completion_tokens  out
//	Responses        response.usage, any end  input_tokens                 in                       output_tokens      out
//	Anthropic        message_start, then      input_tokens +               cache_read_…             output_tokens      -
//	                 each message_delta       cache_read_input_tokens +
//	                                          cache_creation_input_tokens
//	Gemini           every chunk              prompt_tokens                in                       rest of the total  rest
//	xAI              every chunk              prompt_tokens                in                       rest of the total  out
//	vLLM             extra or every chunk     prompt_tokens                in                       completion_tokens  -
//	llama.cpp        beside finish_reason     prompt_tokens                in                       completion_tokens  -
//	  without usage  timings                  prompt_n + cache_n           cache_n                  predicted_n        -
//	Ollama           extra chunk              prompt_tokens                -                        completion_tokens  -
//	OpenRouter       last chunk, any choices  prompt_tokens                in                       completion_tokens  out
//	Mistral          beside finish_reason     prompt_tokens                in                       completion_tokens  -
//	Groq             x_groq, or extra chunk   prompt_tokens                in                       completion_tokens  out
//	DeepSeek         beside finish_reason     prompt_tokens                prompt_cache_hit_tokens  completion_tokens  out
//	Moonshot         in the choice            prompt_tokens                cached_tokens            completion_tokens  -
//	LiteLLM          extra chunk              prompt_tokens                in, or cache_read_…      completion_tokens  out
//	embeddings       plain                    prompt_ or total_tokens      -                        -                  -
//	images, audio    last event, or plain     input_tokens                 -                        output_tokens      -
//
// What was written to a cache is cache_creation_input_tokens, of which that for an hour is ephemeral_1h_input_tokens of
// cache_creation, or cache_write_tokens of in. Audio and images are audio_tokens and image_tokens of either details, less
// what cached_tokens_details says of them: a token is of one kind. Web searches are web_search_requests of server_tool_use,
// num_search_queries, or the items and events of Responses that tell of one; searches of files and sessions of code are
// told by the latter alone. The tier is service_tier, beside the usage or
// in it; speed, where that is not standard; or Google's traffic_type. The last event that names one tells which one
// answered. What decides when servers do not agree with each other or with themselves:
//
//   - All that an answer tells is about the whole of it. Of one count told in several places of a chunk the
//     place that is furthest down this list holds: timings, a choice, x_groq, usage, the envelope of a typed
//     event. Of one count told in several chunks the last one does.
//   - Zeros take nothing back: a side, input or output, of which a report tells zeros alone stays as it was. Nor
//     are zeros beside an answer a report. Counts that a report leaves out stay, too.
//   - The total decides on what contains what. What is in it beside input and output is output that was thought
//     and not written; where no output is told it is input. What was cached is added to the input only if the
//     total has room for it; without a total, if the input is in Anthropic's words; and always if it is larger
//     than the input.
//   - Anthropic's iterations of compaction are in no other count and are added.
//   - A part is never larger than its whole. A count that is no plain integer, or over a million million, is not
//     there.
//   - The usage of a batch, or of a response that was made in the background, is reported at each look. The usage at
//     the top of an answer that says it is a batch does not count here; callers that know they read it for the first time
//     call ReadUsage.
//
// The types of events, what of them counts, and where the usage is in them, are in dialect.go, a value for each family
// of servers.
//
// # Non-goals
//
// No decoding of content encodings: ask upstream for identity. No rewriting of events, no conversion between
// dialects. JSON is read for its structure, not validated: a document whose brackets and strings close is taken as
// it stands. Object keys are compared as written, so a key spelled with escapes is not recognised. Of a chat chunk
// over MaxEvent the usage is read, its choices are not.
//
// # Further reading
//
// The event stream format: https://html.spec.whatwg.org/multipage/server-sent-events.html.
//
// # Stability
//
// Stable: what compiles and works with one release does so with the next.
package streaming
