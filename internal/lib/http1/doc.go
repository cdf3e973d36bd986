// Package http1 sends requests by HTTP/1.1 on the goroutine of the caller.
//
// net/http's Transport has two goroutines for each connection, one that writes and one that reads, because the
// server may answer before it has read the request, and may close a connection while nobody uses it. A short call pays
// for that with several wake-ups, and a stream that stands still with two stacks and a buffer that it does not need.
// Here
//
//   - a short request is written, and its answer read, by who sends it; a long one is written by a goroutine that ends
//     with it;
//   - a server that takes no more of a long request has as much time as for its answer (ResponseHeaderTimeout), also where net/http's
//     Transport sends it;
//   - the end of the request's context closes the connection, which ends whatever waits for it;
//   - an answer, and more of its body, is waited for without a buffer: one is borrowed when bytes have come (but not on
//     Windows);
//   - nobody watches an idle connection. Before it is used again, it is asked without waiting whether anything has come,
//     and is closed if so: its end, or bytes that a server sends unasked, which must never pass for the next answer.
//
// net/http still parses the heads of answers (ReadResponse), so that all that is read strictly there is read strictly here. Only plain heads, of
// status 200 and a known length or in chunks, and bodies are read here. Of chunks as many are read at once as have come; the first one that is not
// plain is left to net/http's reader of chunks. The head of a
// plain POST is written here, in a third of the time, and every other by Request.Write. [Transport] leaves to net/http's
// Transport what is not plain HTTP/1.1 to the host itself: TLS, HTTP/2, proxies, and requests to switch protocols.
//
// Of a request nothing is sent twice, but for GET and HEAD on a kept connection that was closed just then.
package http1
