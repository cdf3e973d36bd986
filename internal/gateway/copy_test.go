package gateway

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/llmgov/llmgov/internal/testkit"
)

// countingListener counts the writes of its connections.
type countingListener struct {
	net.Listener
	writes atomic.Int64
}

// Accept implements net.Listener.
func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return &countingConn{conn, &l.writes}, err
}

type countingConn struct {
	net.Conn
	writes *atomic.Int64
}

// Write implements net.Conn.
func (c *countingConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// streams is an upstream that answers with a stream, all of which is there at once.
type streams struct{ text string }

// RoundTrip implements http.RoundTripper.
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

// Read implements io.Reader.
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
