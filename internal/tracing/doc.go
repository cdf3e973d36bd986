// Package tracing makes the spans of calls, and sends them where the standard OTEL_*
// variables say.
//
//	POST /v1/chat/completions      server: from the first byte to the last
//	├── admit                      asking the governor, waiting included
//	├── chat gpt-4o                client: a try that came to nothing
//	└── chat gpt-4o                client: the try whose answer was passed on
//
// A caller's traceparent is continued, and each try's own is sent upstream. Baggage goes
// nowhere: it is the caller's, and the upstream is somebody else.
//
// # Rules
//
// Without a Tracer nothing is made: a nil Tracer begins nil Calls, whose methods return at
// once. Spans say who called, what was decided and what it took; never what was asked or
// answered, and no key but its name. A collector that is slow or gone costs spans, and
// never a call: they leave in the background, from a queue that drops what it cannot hold.
//
// # What it is not
//
// It decides nothing and measures nothing that metrics and the log line do not have. The
// governor does not know of it: its answer says what a span needs.
package tracing
