package govhttp_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/llmgov/llmgov/governor/govhttp"
)

// Streams of completions are asked for their usage, and every other request is as it was.
func TestAskForUsage(t *testing.T) {
	for _, c := range []struct{ path, body, want string }{
		{"/v1/chat/completions", `{"stream":true}`, `{"stream_options":{"include_usage":true},"stream":true}`},
		{"/base/v1/completions", `{"stream":true,"stream_options":{"include_usage":false}}`, `{"stream":true,"stream_options":{"include_usage":true}}`},
		{"/openai/deployments/d/chat/completions", `{"stream":true,"stream_options":null}`, `{"stream":true,"stream_options":{"include_usage":true}}`},
		{"/v1/chat/completions", `{"stream":true,"stream_options":{"include_usage":true}}`, ""},
		{"/v1/chat/completions", `{"stream":false}`, ""},
		{"/v1/chat/completions", `{"stream":true`, ""},
		{"/v1/responses", `{"stream":true}`, ""},
		{"/v1/messages", `{"stream":true}`, ""},
		{"/elsewhere", `{"stream":true}`, ""},
	} {
		if c.want == "" {
			c.want = c.body
		}
		out, err := govhttp.AskForUsage(httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(c.body)))
		if err != nil {
			t.Fatal(err)
		}
		if sent, err := io.ReadAll(out.Body); string(sent) != c.want || err != nil || out.ContentLength != int64(len(c.want)) {
			t.Errorf("%s %s: sends %d bytes, %s (%v)", c.path, c.body, out.ContentLength, sent, err)
		}
	}
	broken := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", iotest.ErrReader(io.ErrUnexpectedEOF))
	if _, err := govhttp.AskForUsage(broken); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a body that breaks off: %v", err)
	}
}
