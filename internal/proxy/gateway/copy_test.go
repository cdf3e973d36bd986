package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/lib/http1"
	"github.com/llmgov/llmgov/internal/proxy/gateway/relay"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// countingListener counts the writes of its connections.
type countingListener struct {
	net.Listener
	writes atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return &countingConn{conn, &l.writes}, err
}

type countingConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c *countingConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// streams is an upstream that answers with a stream, all of which is there at once.
type streams struct{ text string }

func (s streams) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	_ = r.Body.Close()
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, ContentLength: -1,
		Body: io.NopCloser(&atOnce{s.text}),
	}, nil
}

// atOnce reads as much as there is room for, and the end along with the last bytes, as net/http does.
type atOnce struct{ rest string }

func (a *atOnce) Read(p []byte) (int, error) {
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	if a.rest == "" {
		return n, io.EOF
	}
	return n, nil
}

// The last bytes of a stream leave along with the end of the answer, and so does a short stream with its head.
func TestStreamsEndInOneWrite(t *testing.T) {
	chunk := `data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("word ", 50) + `"}}]}` + "\n\n"
	for chunks, most := range map[int]int64{
		1:  1,
		10: 1,
	} {
		text := strings.Repeat(chunk, chunks) + "data: [DONE]\n\n"
		l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
		counting := &countingListener{Listener: l}
		server := &http.Server{Handler: governedBy(t, streams{text})}
		served := make(chan error, 1)
		go func() { served <- server.Serve(counting) }()
		r := testkit.Must(http.NewRequest(http.MethodPost, "http://"+l.Addr().String()+"/v1/chat/completions", strings.NewReader(`{"model":"gpt-4o-mini","stream":true,"messages":[{"role":"user","content":"Hi"}]}`)))(t)
		r.Header.Set("Authorization", "Bearer "+aKey)
		r.Header.Set("Content-Type", "application/json")
		transport := &http.Transport{}
		resp := testkit.Must(transport.RoundTrip(r))(t)
		got, err := io.ReadAll(resp.Body)
		if string(got) != text || err != nil {
			t.Errorf("%d chunks come as %d bytes, not %d: %.200s, %v", chunks, len(got), len(text), got, err)
		}
		transport.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-served
		if n := counting.writes.Load(); n > most {
			t.Errorf("%d chunks take %d writes, more than %d", chunks, n, most)
		}
	}
}

// A prompt leaves for its upstream along with the head of the request, in one system call, also if it is larger than memory that is used
// again, or came without a length. A short one is copied behind the head; a long one leaves as the second of two parts, which is no Write.
func TestPromptLeavesWithItsHead(t *testing.T) {
	got := make(chan string, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
		w.Header()["Content-Type"] = shortBody
		_, _ = w.Write(shortAnswer)
	}))
	defer upstream.Close()
	var writes atomic.Int64
	transport := http1.New(&http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, upstream.Listener.Addr().String())
		return testkit.CountedConn{TCPConn: conn.(*net.TCPConn), Writes: &writes}, err
	}})
	defer transport.CloseIdleConnections()
	g := governedBy(t, transport)
	for _, size := range []int{300, 8_000, 100_000, 2_000_000, -300, -20_000} {
		chunked := size < 0
		size = max(size, -size)
		body := `{"model":"gpt-4o-mini","max_tokens":100,"messages":[{"role":"user","content":"` + strings.Repeat("x", size) + `"}]}`
		request := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
		request.Header.Set("Authorization", "Bearer "+aKey)
		if chunked {
			request.ContentLength = -1
		}
		client := httptest.NewRecorder()
		writes.Store(0)
		g.ServeHTTP(client, request)
		if client.Code != http.StatusOK {
			t.Fatalf("status %d: %s", client.Code, client.Body)
		}
		if sent := <-got; sent != body {
			t.Errorf("the upstream got %d bytes of %d", len(sent), len(body))
		}
		want := int64(0)
		if size < 1_000 {
			want = 1
		}
		if n := writes.Load(); n != want {
			t.Errorf("%d bytes: %d writes of one part, not %d", size, n, want)
		}
	}
}

// A short prompt does so through TLS as well, where bodies that write themselves cannot join their heads.
func TestShortPromptLeavesWithItsHeadThroughTLS(t *testing.T) {
	got := make(chan string, 1)
	upstream := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
		w.Header()["Content-Type"] = shortBody
		_, _ = w.Write(shortAnswer)
	}))
	defer upstream.Close()
	var writes atomic.Int64
	transport := upstream.Client().Transport.(*http.Transport)
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &countingConn{conn, &writes}, err
	}
	g := governedAt(t, upstream.URL+"/v1", transport)
	for _, word := range []string{"first", "again"} {
		body := `{"model":"gpt-4o-mini","max_tokens":100,"messages":[{"role":"user","content":"` + strings.Repeat(word, 80) + `"}]}`
		request := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
		request.Header.Set("Authorization", "Bearer "+aKey)
		client := httptest.NewRecorder()
		writes.Store(0)
		g.ServeHTTP(client, request)
		if client.Code != http.StatusOK {
			t.Fatalf("status %d: %s", client.Code, client.Body)
		}
		if sent := <-got; sent != body {
			t.Errorf("the upstream got %s", sent)
		}
	}
	if n := writes.Load(); n != 1 {
		t.Errorf("a short prompt left in %d writes", n)
	}
}

// fragile is a connection that is dead once it is broken: nothing more leaves.
type fragile struct {
	net.Conn
	broken *atomic.Bool
}

func (c fragile) Write(p []byte) (int, error) {
	if c.broken.Load() {
		return 0, errors.New("broken pipe")
	}
	return c.Conn.Write(p)
}

// A call that makes an object is not sent again if it may have arrived. If its kept connection was dead before anything of it
// left, it has not arrived.
func TestHeldHeadThatNeverLeft(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header()["Content-Type"] = shortBody
		_, _ = w.Write([]byte(`{"id":"resp_1","object":"response","status":"completed","output":[],"usage":{"input_tokens":5,"output_tokens":5}}`))
	}))
	defer upstream.Close()
	var broken atomic.Bool
	var dialed atomic.Int64
	transport := http1.New(&http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, upstream.Listener.Addr().String())
		if dialed.Add(1) == 1 {
			conn = fragile{conn, &broken}
		}
		return conn, err
	}})
	defer transport.CloseIdleConnections()
	g := governedBy(t, transport)
	for i := range 2 {
		body := `{"model":"gpt-4o-mini","max_output_tokens":100,"input":"` + strings.Repeat("x", 50_000) + `"}`
		request := httptest.NewRequest(http.MethodPost, "/v1/responses", strings.NewReader(body))
		request.Header.Set("Authorization", "Bearer "+aKey)
		client := httptest.NewRecorder()
		g.ServeHTTP(client, request)
		if client.Code != http.StatusOK {
			t.Errorf("call %d: status %d: %s", i, client.Code, client.Body)
		}
		broken.Store(true)
	}
	if n := dialed.Load(); n != 2 {
		t.Errorf("%d connections", n)
	}
}

// echoing is an upstream that answers each call with its request id, in a stream if it is asked for one. Some answers begin just when a
// gateway sends their heads without waiting any longer.
type echoing struct{}

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
