package http1

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const maxHead = 256 << 10

// host is a server on which each connection has a script, and the settings of a transport that dials it.
type host struct {
	settings *http.Transport
	dialed   atomic.Int64
	wg       sync.WaitGroup
}

// serve returns a host whose connections are pipes: what is written waits until it is read. serve ends with its connection.
func serve(t *testing.T, serve func(conn net.Conn, n int64)) *host {
	return serveOver(t, func() (client, server net.Conn) { return net.Pipe() }, serve)
}

// serveTCP is serve over sockets.
func serveTCP(t *testing.T, serve func(conn net.Conn, n int64)) *host {
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	return serveOver(t, func() (client, server net.Conn) {
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Error(err)
		}
		server, err = l.Accept()
		if err != nil {
			t.Error(err)
		}
		return client, server
	}, serve)
}

func serveOver(t *testing.T, connect func() (client, server net.Conn), serve func(conn net.Conn, n int64)) *host {
	h := &host{}
	t.Cleanup(h.wg.Wait)
	h.settings = &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			client, server := connect()
			n := h.dialed.Add(1)
			h.wg.Go(func() {
				defer server.Close()
				serve(server, n)
			})
			return client, nil
		},
		MaxResponseHeaderBytes: maxHead,
		MaxIdleConnsPerHost:    10,
		IdleConnTimeout:        90 * time.Second,
		DisableCompression:     true,
	}
	return h
}

// transport returns a Transport to the host, which is closed before the host is waited for.
func (h *host) transport(t *testing.T) *Transport {
	tr := New(h.settings)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// answering reads requests, and answers each with this text.
func answering(text string) func(net.Conn, int64) {
	return func(conn net.Conn, _ int64) {
		requests := bufio.NewReader(conn)
		for readRequest(requests) == nil {
			if _, err := io.WriteString(conn, text); err != nil {
				return
			}
		}
	}
}

func readRequest(from *bufio.Reader) error {
	r, err := http.ReadRequest(from)
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body)
	}
	return err
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// memory is a body that can write itself.
type memory struct{ bytes.Reader }

// Close implements io.Closer.
func (*memory) Close() error { return nil }

// WriteRest implements Body.
func (m *memory) WriteRest(w io.Writer, most int64) (int64, error) {
	rest, _ := io.ReadAll(io.LimitReader(&m.Reader, most))
	n, err := w.Write(rest)
	return int64(n), err
}

// post is a request with so many bytes.
func post(ctx context.Context, size int) *http.Request {
	content := bytes.Repeat([]byte("a"), size)
	open := func() (io.ReadCloser, error) {
		m := &memory{}
		m.Reset(content)
		return m, nil
	}
	body, _ := open()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://host/path", body)
	if err != nil {
		panic(err)
	}
	r.ContentLength = int64(size)
	r.GetBody = open
	return r
}

func get(ctx context.Context) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://host/path", nil)
	if err != nil {
		panic(err)
	}
	return r
}

// call sends a request and returns the body of its answer.
func call(t *testing.T, through http.RoundTripper, r *http.Request) string {
	t.Helper()
	resp, err := through.RoundTrip(r)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}

// waits is a connection that never answers, until its client closes it.
func waits(conn net.Conn, _ int64) { _, _ = io.Copy(io.Discard, conn) }
