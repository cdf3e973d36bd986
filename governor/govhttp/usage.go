package govhttp

import (
	"bytes"
	"io"
	"net/http"

	"github.com/llmgov/llmgov/internal/lib/splice"
	"github.com/llmgov/llmgov/internal/proxy/gateway/describe"
	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
	"github.com/llmgov/llmgov/streaming"
)

// AskForUsage makes a stream of completions report its usage, for programs that meter answers by [streaming.Handler] without governing
// them. It returns the request to send in r's place, uncompressed; its answer's extra chunk is withheld if r did not ask for it. All
// other requests, and bodies that cannot be read as JSON, are as they were. The error is that of reading the body, which
// may have 32 MiB.
func AskForUsage(r *http.Request) (*http.Request, error) {
	_, at, _ := routeOf(r)
	if at == nil || !at.Chunked || at.Body != dialect.JSON || r.Body == nil {
		return r, nil
	}
	body, err := readBody(r, defaultMaxBody)
	if err != nil {
		return nil, err
	}
	withheld := false
	if h, wrong := head.Read(head.Unmarked(body)); wrong == nil {
		body = head.Unmarked(body)
		var edits []splice.Edit
		var added upstreams.Addition
		edits, added = describe.Edits(at, h, 0, 0)
		withheld = added != 0
		body = splice.Copy(body, edits)
	}
	ctx := r.Context()
	if withheld {
		ctx = streaming.WithUsageWithheld(ctx)
	}
	out := r.Clone(ctx)
	setBody(out, body)
	out.Header.Set("Accept-Encoding", "identity")
	return out, nil
}

// setBody has a request send a body.
func setBody(r *http.Request, body []byte) {
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.TransferEncoding = nil
	r.Header.Del("Content-Length")
}
