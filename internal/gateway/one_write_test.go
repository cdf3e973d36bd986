package gateway

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/llmgov/llmgov/internal/dial"
)

// parted counts the writes of one part, but not those of several.
type parted struct {
	*net.TCPConn
	writes *atomic.Int64
}

// Write implements io.Writer.
func (c parted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.TCPConn.Write(p)
}

// A prompt leaves for its upstream along with the head of the request, in one system call.
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
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, upstream.Listener.Addr().String())
		return &dial.Conn{Conn: parted{conn.(*net.TCPConn), &writes}}, err
	}}
	defer transport.CloseIdleConnections()
	g := governedBy(t, transport)
	for _, size := range []int{8_000, 100_000} {
		body := `{"model":"gpt-4o-mini","max_tokens":100,"messages":[{"role":"user","content":"` + strings.Repeat("x", size) + `"}]}`
		request := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
		request.Header.Set("Authorization", "Bearer "+aKey)
		client := httptest.NewRecorder()
		g.ServeHTTP(client, request)
		if client.Code != http.StatusOK {
			t.Fatalf("status %d: %s", client.Code, client.Body)
		}
		if sent := <-got; sent != body {
			t.Errorf("the upstream got %d bytes of %d", len(sent), len(body))
		}
	}
	if n := writes.Load(); n != 0 {
		t.Errorf("%d writes without the head or without the body", n)
	}
}
