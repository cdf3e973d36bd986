// Package tracing makes the spans of calls. Package otlp below it exports them.
//
//	POST /v1/chat/completions      server: from the first byte to the last
//	├── admit                      asking the governor, waiting included
//	├── chat gpt-4o                client: a failed try
//	└── chat gpt-4o                client: the try whose answer was passed on
//
// A caller's traceparent is continued, and each try's own is sent upstream. Baggage is not
// passed on, because it is the caller's and the upstream is another party.
//
// # Rules
//
// Without a Tracer nothing is made: a nil Tracer begins nil Calls, whose methods return at
// once. Spans have the caller, the decision and the usage, never prompts or answers, and of a
// key only its name. A slow or absent collector costs spans, never a call: they are sent in
// the background, from a queue that drops those beyond its size.
//
// # Limits
//
// It decides nothing, and measures nothing that metrics and the log line lack. The governor
// does not know of it: its answer has the values for a span.
package tracing
