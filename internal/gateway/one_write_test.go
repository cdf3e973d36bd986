package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/llmgov/llmgov/internal/http1"
	"github.com/llmgov/llmgov/internal/testkit"
)

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

// Write implements io.Writer.
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
