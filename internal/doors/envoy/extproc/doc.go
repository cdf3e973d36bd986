// Package extproc is the door for proxies with external processing: Envoy's ext_proc v3. Each call of the proxy is a
// gRPC stream, and that stream is the call's lease.
//
//	request headers ───► who asks, on which route
//	   with metadata:  ► model, bound, stream ─┐
//	request body ──────► head.Head ────────────┴─► Admit, which waits
//	                    ◄── go on, with edited headers and body; or an immediate response that refuses
//	response headers ──► an error costs nothing
//	                    ◄── rate headers
//	response body ─────► streaming meters its parts ◄── the parts, without a usage chunk that nobody asked for
//	response trailers ─► the usage in the metadata
//	end of the stream ─► the end of the lease
//
// # Modes
//
// The proxy's configuration decides which messages come. If its request body is buffered for us, we read that, as the
// gateway does. Else the metadata envoy.data.ai.v3.RequestInfo has to describe the call. The answer is metered
// by its parts if they come, and else charged by the metadata envoy.data.ai.v3.TokenUsage of the trailers. Both can be
// mixed.
//
// # Rules
//
//  1. No call goes on without a lease: whatever is wrong, also with the proxy's configuration, is a refusal or an error
//     of the stream, and never its orderly end.
//  2. A stream that ends before its answer has broken off: it is charged as produced, by estimate if need be. The
//     proxy does not say whether the caller or the model server has gone.
//  3. Calls in flight and the memory of their bodies are bounded.
//
// One goroutine reads a stream, so that a call can be cut off while nothing comes. It ends with the stream.
package extproc
