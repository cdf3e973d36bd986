package streaming

import (
	"context"
	"io"
	"mime"
	"net/http"
)

type withheldKey struct{}

// WithUsageWithheld returns a context for a request that was made to ask for its usage although its client did not: [Handler] withholds
// the chunk that has it.
func WithUsageWithheld(ctx context.Context) context.Context {
	return context.WithValue(ctx, withheldKey{}, true)
}

// Handler returns a function that meters answers of 2xx, streams and others, such as an httputil.ReverseProxy takes as its
// ModifyResponse. It replaces the answer's body by one that calls end once: at its end, or when it is closed. Answers of other
// statuses have no usage, and pass as they are.
//
//	proxy.ModifyResponse = streaming.Handler(func(resp *http.Response, r streaming.Result) {
//		log.Println(resp.Request.URL.Path, r.Cause, r.Usage.Input, r.Usage.Output)
//	})
//
// The usage of an answer that comes compressed, as a client that says Accept-Encoding itself may get it, is not read.
//
// Streams of chat completions report their usage only when they are asked to: see AskForUsage of package govhttp.
func Handler(end func(*http.Response, Result)) func(*http.Response) error {
	return func(resp *http.Response) error {
		if resp.StatusCode/100 != 2 || resp.Body == nil {
			return nil
		}
		resp.Body = metered(resp, func(r Result) { end(resp, r) })
		return nil
	}
}

func metered(resp *http.Response, end func(Result)) io.ReadCloser {
	if !IsEventStream(resp.Header) {
		return NewWhole(resp.Body, WholeOptions{End: end})
	}
	withheld := false
	if resp.Request != nil {
		withheld, _ = resp.Request.Context().Value(withheldKey{}).(bool)
	}
	if withheld {
		resp.Header.Del("Content-Length")
		resp.ContentLength = -1
	}
	return NewBody(resp.Body, Options{WithholdUsage: withheld, End: end})
}

// IsEventStream reports whether the headers of an answer are those of a stream of events that can be read: it is not compressed.
func IsEventStream(h http.Header) bool {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	encoding := h.Get("Content-Encoding")
	return err == nil && kind == "text/event-stream" && (encoding == "" || encoding == "identity")
}
