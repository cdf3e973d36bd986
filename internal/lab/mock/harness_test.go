package mock

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/leaktest"
	"github.com/llmgov/llmgov/internal/test/testkit/pipenet"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// rig is a Server and a client of it.
type rig struct {
	t      *testing.T
	s      *Server
	url    string
	client *http.Client
	dial   func(context.Context, string, string) (net.Conn, error) // nil on a socket
}

// inBubble serves cfg over pipes. It must be called in a synctest bubble, and its cleanup runs there.
func inBubble(t *testing.T, cfg Config) *rig {
	s := mustNew(t, cfg)
	l := pipenet.Listen()
	hs := &http.Server{Handler: s}
	go hs.Serve(l)
	tr := &http.Transport{DialContext: l.Dial}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		hs.Close()
	})
	return &rig{t, s, "http://mock", &http.Client{Transport: tr}, l.Dial}
}

// onSocket serves cfg over TCP.
func onSocket(t *testing.T, cfg Config) *rig {
	s := mustNew(t, cfg)
	hs := httptest.NewServer(s)
	t.Cleanup(hs.Close)
	return &rig{t, s, hs.URL, hs.Client(), nil}
}

func mustNew(t testing.TB, cfg Config) *Server {
	t.Helper()
	return testkit.Must(New(cfg))(t)
}

// reply is an answer read to its end.
type reply struct {
	status int
	header http.Header
	body   string
	err    error // of the call, or of reading the body
}

func (r reply) get(path string) gjson.Result { return gjson.Get(r.body, path) }

func (r *rig) post(path, body string) reply {
	return r.do(context.Background(), http.MethodPost, path, body)
}

func (r *rig) get(path string) reply { return r.do(context.Background(), http.MethodGet, path, "") }

func (r *rig) do(ctx context.Context, method, path, body string) reply {
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Error(err)
		return reply{err: err}
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(b), err}
}

// chat sends a chat request whose prompt is 8 tokens (4 of the message, 3 of the request, 1 of
// the text). fields is put into its object.
func (r *rig) chat(fields string) reply { return r.post("/v1/chat/completions", chatBody(fields)) }

const chatPrompt = 8

func chatBody(fields string) string {
	if fields != "" {
		fields = "," + fields
	}
	return `{"model":"m","messages":[{"role":"user","content":"hi"}]` + fields + `}`
}

// event is one server-sent event.
type event struct{ name, data string }

// events takes a stream apart. Comments and ids are left out.
func events(body string) (evs []event) {
	var e event
	for sc := bufio.NewScanner(strings.NewReader(body)); sc.Scan(); {
		line := sc.Text()
		switch {
		case strings.HasPrefix(line, "event: "):
			e.name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			e.data = line[len("data: "):]
		case line == "" && e != (event{}):
			evs = append(evs, e)
			e = event{}
		}
	}
	return evs
}

// tokens counts the events of a chat stream that bear a token.
func tokens(body string) (n int64) {
	for _, e := range events(body) {
		delta := gjson.Get(e.data, "choices.0.delta")
		if delta.Get("content").Str != "" || delta.Get("tool_calls.0.function.arguments").Str != "" {
			n++
		}
	}
	return n
}

// wantStats fails the test when a figure that matters differs. The limits' windows and peaks
// are compared only where want has them.
func (r *rig) wantStats(want Stats) {
	r.t.Helper()
	got := r.s.Stats()
	got.PeakRunning = 0
	got.TokensProduced = 0
	if want.WindowTokens == 0 {
		got.WindowTokens = 0
	}
	got.WindowTokensPeak = 0
	got.WindowRequests = 0
	got.WindowRequestsPeak = 0
	if got != want {
		r.t.Errorf("stats\n got %+v\nwant %+v", got, want)
	}
}
