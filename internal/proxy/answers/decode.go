package answers

import (
	"net/http"

	"github.com/llmgov/llmgov/internal/lib/encoded"
)

// Decode has an answer read as it was before it was encoded, as it comes: some servers encode it although identity was asked for. It
// stays as it is if its encoding is not known, or if it is a part of something encoded.
func Decode(resp *http.Response) {
	encoding, known := encoded.Of(resp.Header["Content-Encoding"])
	if encoding == "" || !known || resp.Body == nil || resp.StatusCode == http.StatusPartialContent {
		return
	}
	resp.Body = encoded.Body(encoding, resp.Body)
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	resp.ContentLength = -1
	resp.Uncompressed = true
}
