package streaming

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Answers of every kind are metered to their ends, once, and others pass as they are.
func TestHandler(t *testing.T) {
	const stream = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n" +
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n"
	for name, c := range map[string]struct {
		status   int
		kind     string
		body     string
		withheld bool
		close    bool // unread
		cause    Cause
		input    int64
		ends     int
		shows    bool
	}{
		"a stream":                      {status: 200, kind: "text/event-stream; charset=utf-8", body: stream, cause: Completed, input: 3, ends: 1, shows: true},
		"a stream that was asked to":    {status: 200, kind: "text/event-stream", body: stream, withheld: true, cause: Completed, input: 3, ends: 1},
		"a stream that breaks off":      {status: 200, kind: "text/event-stream", body: stream[:60], cause: Truncated, ends: 1},
		"a stream that nobody reads":    {status: 200, kind: "text/event-stream", body: stream, close: true, cause: ClientGone, ends: 1},
		"a plain answer":                {status: 201, kind: "application/json", body: `{"usage":{"prompt_tokens":3,"completion_tokens":1}}`, cause: Completed, input: 3, ends: 1, shows: true},
		"one whose usage was asked for": {status: 200, kind: "application/json", body: `{"usage":{"prompt_tokens":3,"completion_tokens":1}}`, withheld: true, cause: Completed, input: 3, ends: 1, shows: true},
		"a refusal":                     {status: 429, kind: "text/event-stream", body: stream, shows: true},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		if c.withheld {
			r = r.WithContext(WithUsageWithheld(r.Context()))
		}
		resp := &http.Response{StatusCode: c.status, Header: http.Header{"Content-Type": {c.kind}}, Body: io.NopCloser(strings.NewReader(c.body)), ContentLength: int64(len(c.body)), Request: r}
		var got []Result
		if err := Handler(func(of *http.Response, r Result) {
			if of != resp {
				t.Errorf("%s: told of another answer", name)
			}
			got = append(got, r)
		})(resp); err != nil {
			t.Error(err)
		}
		shown := ""
		if !c.close {
			read, err := io.ReadAll(resp.Body)
			shown = string(read)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		_ = resp.Body.Close()
		if strings.Contains(shown, "usage") != c.shows || len(got) != c.ends {
			t.Errorf("%s: %d ends, and it shows %q", name, len(got), shown)
			continue
		}
		if c.ends > 0 && (got[0].Cause != c.cause || got[0].Usage.Input != c.input) {
			t.Errorf("%s: %+v", name, got[0])
		}
	}
}
