package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/gateway/relay"
	"github.com/llmgov/llmgov/internal/testkit"
)

// echoing is an upstream that answers each call with its request id, in a stream if it is asked for one. Some answers begin just when a
// gateway sends their heads without waiting any longer.
type echoing struct{}

// RoundTrip implements http.RoundTripper.
func (echoing) RoundTrip(r *http.Request) (*http.Response, error) {
	asked, _ := io.ReadAll(r.Body)
	_ = r.Body.Close()
	id := r.Header.Get("X-Request-Id")
	kind := "application/json"
	text := fmt.Sprintf(`{"id":%q,"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}`, id)
	if strings.Contains(string(asked), `"stream":true`) {
		kind = "text/event-stream"
		text = fmt.Sprintf("data: {\"id\":%q,\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n", id)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, ContentLength: -1,
		Body: io.NopCloser(&late{time.Duration(8+len(id)%5) * time.Millisecond, strings.NewReader(text)}),
	}, nil
}

// late is there after a while.
type late struct {
	wait time.Duration
	text io.Reader
}

// Read implements io.Reader.
func (l *late) Read(p []byte) (int, error) {
	time.Sleep(l.wait)
	l.wait = 0
	return l.text.Read(p)
}

// Calls that use the memory of earlier ones get their own answers, and nothing of those before writes to their clients.
func TestCallsInUsedMemoryGetTheirOwnAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := governedBy(t, echoing{})
		testkit.AtOnce(20, func(caller int) {
			for i := range 25 {
				id := fmt.Sprint("call-", caller, "-", strings.Repeat("x", i))
				if got := callWithID(g, id, i%3); !strings.HasPrefix(got, want(id, i%3)) {
					t.Errorf("%s is answered %s", id, got)
				}
			}
		})
	})
}

// callWithID makes a call: a plain one, a stream, or one that is refused.
func callWithID(g *Gateway, id string, kind int) string {
	body := [...]string{`{"model":"m","messages":[]}`, `{"model":"m","stream":true,"messages":[]}`, `{"messages":[]}`}[kind]
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+aKey)
	r.Header.Set("X-Request-Id", id)
	client := httptest.NewRecorder()
	g.ServeHTTP(client, r)
	return fmt.Sprint(client.Code, " ", client.Header().Get("X-Request-Id"), " ", client.Body)
}

// want is how its answer begins.
func want(id string, kind int) string {
	return fmt.Sprintf([...]string{"200 %s {\"id\":%[1]q", "200 %s data: {\"id\":%[1]q", "400 %s {\"error\""}[kind], id)
}

// A stream leaves its writer behind, because its timer may still be about to send the head.
func TestStreamsLeaveTheirWriterBehind(t *testing.T) {
	for _, timed := range []bool{false, true} {
		c := &call{w: new(relay.Writer), timed: timed}
		w := c.w
		c.clear()
		if kept := c.w == w; kept == timed {
			t.Errorf("of a call that is a stream (%v), the writer is used again: %v", timed, kept)
		}
	}
}
