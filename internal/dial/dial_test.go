package dial

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// prompt is a body that can write itself.
type prompt struct{ bytes.Reader }

func (p *prompt) Close() error { return nil }

// WriteRest implements Body.
func (p *prompt) WriteRest(w io.Writer, most int64) (int64, error) {
	rest, _ := io.ReadAll(io.LimitReader(&p.Reader, most))
	n, err := w.Write(rest)
	return int64(n), err
}

// countingConn counts writes.
type countingConn struct {
	net.Conn
	writes *atomic.Int64
}

// Write implements io.Writer.
func (c countingConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// A body of 400 KB leaves in one write behind its headers, byte for byte, on a connection that is used again.
func TestBodiesInMemoryLeaveInOneWrite(t *testing.T) {
	var got []byte
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got, _ = io.ReadAll(r.Body)
	}))
	defer server.Close()
	var writes, dialed atomic.Int64
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed.Add(1)
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &Conn{countingConn{conn, &writes}}, err
	}}
	defer transport.CloseIdleConnections()
	for i, size := range []int{400_000, 5_000, 1, 100_000} {
		sent := bytes.Repeat([]byte{'a' + byte(i)}, size)
		body := &prompt{}
		body.Reset(sent)
		r, err := http.NewRequest(http.MethodPost, server.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = int64(size)
		writes.Store(0)
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if !bytes.Equal(got, sent) {
			t.Errorf("%d bytes came as %d", size, len(got))
		}
		if n := writes.Load(); n > 3 {
			t.Errorf("%d bytes took %d writes", size, n)
		}
	}
	if n := dialed.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// All else is copied.
func TestOtherBodiesAreCopied(t *testing.T) {
	ours, theirs := net.Pipe()
	c := &Conn{ours}
	go func() {
		_, _ = c.ReadFrom(io.LimitReader(bytes.NewReader([]byte("limited, ")), 9))
		_, _ = c.ReadFrom(bytes.NewReader([]byte("plain")))
		_ = c.Close()
	}()
	if got, err := io.ReadAll(theirs); string(got) != "limited, plain" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}
