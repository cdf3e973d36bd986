package gateway

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/ops/logging"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/admissiontest"
	"github.com/llmgov/llmgov/tenants"
)

// What the gateway itself allocates for a call, without net/http.
var (
	mostOfShortCall   = testkit.Spent{Bytes: 2_050, Objects: 21}
	mostOfShortStream = testkit.Spent{Bytes: 3_300, Objects: 29}
	mostOfRefused     = testkit.Spent{Bytes: 1_600, Objects: 10}
)

// TestShortCall_Allocates runs calls through the gateway alone: its client and its upstream are
// stand-ins that allocate little.
func TestShortCall_Allocates(t *testing.T) {
	for _, c := range []struct {
		name string
		once func()
		most testkit.Spent
	}{
		{"a short chat", shortCall(t), mostOfShortCall},
		{"a short stream", callOf(t, shortStream), mostOfShortStream},
		{"a refused call", callOf(t, notGranted), mostOfRefused},
	} {
		for range 100 {
			c.once()
		}
		s := testkit.Allocated(t, 100, c.once)
		t.Logf("%s allocates %+v", c.name, s)
		if s.Bytes > c.most.Bytes || s.Objects > c.most.Objects {
			t.Errorf("%s allocates %+v, more than %+v", c.name, s, c.most)
		}
	}
}

// aKey is that of the only tenant of governedBy.
const aKey = "llmg_000000000000000000000001"

// governedBy is a gateway with every limit on, and one log line a call.
func governedBy(t testing.TB, transport http.RoundTripper) *Gateway {
	return governedAt(t, "http://mock/v1", transport)
}

// governedAt is governedBy with an upstream at an address.
func governedAt(t testing.TB, base string, transport http.RoundTripper) *Gateway {
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "mock", BaseURL: base, APIKey: "upstream-key"}}
	pool := tenants.DefaultPool("bench", "*")
	pool.TPM = 1_000_000_000_000
	pool.RPM = 1_000_000_000_000
	pool.Concurrency = 100
	cfg.Pools = []tenants.Pool{pool}
	ctl := admissiontest.Build(t, cfg, tenants.Tenant{
		Name: "acme", Tier: "bench", Weight: 1, Limits: terms.Limits{RPM: 1e9, TPM: 1e9, ITPM: 1e9, OTPM: 1e9, Concurrency: 100},
		MaxWait: time.Second, MaxOutputTokens: 512, Keys: []tenants.Key{{Hash: tenants.HashKey(aKey)}},
	})
	g := testkit.Must(New(Options{
		Admission: ctl,
		Log:       slog.New(logging.JSON(io.Discard)), Transport: transport,
	}))(t)
	return g
}

// exchange is a chat: what is asked, and how it is answered.
type exchange struct {
	request string
	kind    []string // of the answer
	answer  []byte
	status  int
}

var (
	shortChat   = exchange{`{"model":"gpt-4o-mini","max_tokens":4096` + question, shortBody, shortAnswer, http.StatusOK}
	shortStream = exchange{`{"model":"gpt-4o-mini","stream":true,"max_tokens":4096` + question, []string{"text/event-stream"}, []byte(oneChunk), http.StatusOK}
	notGranted  = exchange{`{"max_tokens":4096` + question, shortBody, shortAnswer, http.StatusBadRequest}
)

var question = `,"messages":[{"role":"user","content":"` + strings.Repeat("How long is it? ", 20) + `"}]}`

const oneChunk = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"word"}}]}` + "\n\ndata: [DONE]\n\n"

// shortCall is one chat of 0.4 KB.
func shortCall(t testing.TB) func() { return callOf(t, shortChat) }

// callOf is one call of a gateway that always answers alike.
func callOf(t testing.TB, e exchange) func() {
	g := governedBy(t, &answering{kind: e.kind, text: e.answer})
	request := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
	request.Header = http.Header{
		"Authorization": {"Bearer " + aKey}, "Content-Type": {"application/json"},
		"User-Agent": {"bench"}, "Accept-Encoding": {"gzip"},
	}
	request.ContentLength = int64(len(e.request))
	client := &listening{header: http.Header{}}
	reader := strings.NewReader("")
	request.Body = io.NopCloser(reader)
	return func() {
		reader.Reset(e.request)
		client.reset()
		g.ServeHTTP(client, request)
		if client.status != e.status || client.bytes == 0 {
			t.Fatalf("status %d, %d bytes", client.status, client.bytes)
		}
	}
}

// answering is an upstream that always gives the same answer.
type answering struct {
	kind   []string
	text   []byte
	answer bytes.Reader
	resp   http.Response
}

var shortAnswer = []byte(`{"id":"chatcmpl-1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"` +
	strings.Repeat("so long. ", 30) + `"}}],"usage":{"prompt_tokens":90,"completion_tokens":20,"total_tokens":110}}`)

var (
	shortBody = []string{"application/json"}
	shortDate = []string{"Mon, 02 Jan 2006 15:04:05 GMT"}
)

func (a *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	_ = r.Body.Close()
	a.answer.Reset(a.text)
	if a.resp.Header == nil {
		a.resp.Header = http.Header{}
	}
	a.resp.StatusCode = http.StatusOK
	a.resp.Header["Content-Type"] = a.kind
	a.resp.Header["Date"] = shortDate
	a.resp.Body = io.NopCloser(&a.answer)
	a.resp.ContentLength = int64(len(a.text))
	return &a.resp, nil
}

// listening is a client that counts what it is answered.
type listening struct {
	header http.Header
	status int
	bytes  int
}

func (l *listening) reset() {
	clear(l.header)
	l.status = 0
	l.bytes = 0
}

func (l *listening) Header() http.Header { return l.header }

func (l *listening) WriteHeader(status int) { l.status = status }

func (l *listening) Write(p []byte) (int, error) {
	l.bytes += len(p)
	return len(p), nil
}

// SetReadDeadline is found by http.ResponseController.
func (l *listening) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline is found by http.ResponseController.
func (l *listening) SetWriteDeadline(time.Time) error { return nil }

func (l *listening) Flush() {}
