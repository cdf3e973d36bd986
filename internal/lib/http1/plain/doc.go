// Package plain serves plain requests of HTTP/1.1 on the goroutine of their connection, and leaves all others to net/http's
// server.
//
//	listener ──► conn ──► is the next request a plain one?
//	                │          │ yes: it is served here
//	                │          │ no: the connection, with the request unread, goes to net/http's server for good
//	                ▼
//	             Handler
//
// A request is plain if it is a POST to a path with a body of known length, whose head has come in one piece, in the strictest form that
// RFC 9112 knows (see [head]): nearly all requests of SDKs without TLS. What is malformed, unusual or slow
// to come, HTTP/2, chunked bodies and changes of protocol are met by net/http's server, with its time limits and its errors. Heads with a
// header twice, an empty value, or bytes other than visible ones are read by net/http; a fuzzer checks that all others are read as net/http
// reads them.
//
// For a plain request net/http's server does more than is needed. It starts a goroutine that watches for the client
// going, and stops it; copies the map of the answer's headers; and holds two buffers for as long as the answer takes. Here
//
//   - the connection is watched only once all of a request has come, and somebody has listened for a while (watchAfter) for the end
//     of its context: a handler that only asks by Err is not told;
//   - the map of headers and the buffers are used again;
//   - a buffer is held only while something is in it.
//
// So a handler, and whatever it starts, must not touch the headers of its answer once it has returned.
package plain
