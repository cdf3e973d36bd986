// Package govhttp governs HTTP calls to model servers by a client.Client: those that a program sends, and those that
// it serves. Each call is read and metered as the gateway does it, streams included.
//
//	&http.Client{Transport: govhttp.Transport(governed, nil, opt)}              // any HTTP client
//	option.WithMiddleware(govhttp.ClientMiddleware(governed, opt))              // openai-go, anthropic-sdk-go
//	config.HTTPClient = govhttp.Doer(governed, &http.Client{}, opt)             // sashabaranov/go-openai
//	http.Handle("/v1/", govhttp.Middleware(governed, opt)(handler))             // net/http servers
//
// # The way of a call
//
//	request ─► route, head of the body ─► Client.Reserve, which waits ─► next ─► answer
//	                                                                             │ metered as it is read
//	                                                       Lease.End ◄───────────┘ at its end, or on Close
//
// Calls to chat/completions, completions, responses, messages, embeddings, rerank, images, audio and moderations are governed,
// below whatever base URL, however untidy their path, and under other methods than POST if they have a body. All other requests
// pass, of which Options.Unknown is told: also messages below an id, such as a thread's, which are none for a model. A stream of chat completions is asked for its usage, and the
// extra chunk withheld from callers who did not ask. What a server refuses of what was added is left out: the request is sent once more, and later ones without it. As with any answer, its body has to be closed.
//
// # Refusals
//
// A refused call's error is a *client.Refusal; http.Client wraps it, and errors.As finds it. SDKs retry errors at
// their own pace. With Options.Answer the refusal is an answer instead, with the status, headers and body that
// the gateway would give, after whose Retry-After they come back.
//
// # Stability
//
// Stable: what compiles and works with one release does so with the next.
package govhttp
