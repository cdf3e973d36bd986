package dial

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync/atomic"
	"testing"

	"github.com/llmgov/llmgov/internal/testkit"
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
		return &Conn{Conn: countingConn{conn, &writes}}, err
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

// A head that is held leaves along with its body, and never without one. A request without a body in between is sent
// as ever.
func TestHeadsLeaveAlongWithBodies(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ := io.ReadAll(r.Body)
		_, _ = w.Write(got)
	}))
	defer server.Close()
	var writes atomic.Int64
	var conn *Conn
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		plain, err := new(net.Dialer).DialContext(ctx, network, address)
		conn = &Conn{Conn: testkit.CountedConn{TCPConn: plain.(*net.TCPConn), Writes: &writes}}
		return conn, err
	}}
	defer transport.CloseIdleConnections()
	for i, size := range []int{5_000, 0, 100_000, 5_000} {
		sent := bytes.Repeat([]byte{'a' + byte(i)}, size)
		trace := &httptrace.ClientTrace{}
		var body io.Reader
		alone := int64(1)
		if size > 0 {
			inMemory := &prompt{}
			inMemory.Reset(sent)
			body = inMemory
			trace.WroteHeaders = func() { conn.HoldHead() }
			alone = 0
		}
		r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, server.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = int64(size)
		writes.Store(0)
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if !bytes.Equal(got, sent) {
			t.Errorf("%d bytes came as %d", size, len(got))
		}
		if n := writes.Load(); n != alone {
			t.Errorf("%d bytes: %d writes of one part, want %d", size, n, alone)
		}
	}
}

// A head that is held also leaves with a body that cannot write itself, and with that alone.
func TestHeldHeadLeavesWithAnyBody(t *testing.T) {
	ours, theirs := net.Pipe()
	c := &Conn{Conn: ours}
	go func() {
		c.HoldHead()
		_, _ = c.Write([]byte("head, "))
		_, _ = c.ReadFrom(io.LimitReader(bytes.NewReader([]byte("body, ")), 6))
		_, _ = c.Write([]byte("next"))
		_ = c.Close()
	}()
	if got, err := io.ReadAll(theirs); string(got) != "head, body, next" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// failing is a connection that takes some bytes, and no more.
type failing struct {
	net.Conn
	takes int
}

// Write implements io.Writer.
func (c *failing) Write(p []byte) (int, error) {
	n := min(c.takes, len(p))
	c.takes -= n
	if n < len(p) {
		return n, io.ErrClosedPipe
	}
	return n, nil
}

// A head is held until a part of it leaves.
func TestHoldsHeadUntilItLeaves(t *testing.T) {
	for takes, held := range map[int]bool{0: true, 1: false, 4: false, 6: false, 8: false} {
		body := &prompt{}
		body.Reset([]byte("body"))
		c := &Conn{Conn: &failing{takes: takes}}
		c.HoldHead()
		_, _ = c.Write([]byte("head"))
		if !c.HoldsHead() {
			t.Error("the head is not held")
		}
		n, err := c.ReadFrom(io.LimitReader(body, 4))
		if sent := max(0, takes-4); n != int64(sent) || (err == nil) != (sent == 4) {
			t.Errorf("of %d bytes, %d are of the body, %v", takes, n, err)
		}
		if c.HoldsHead() != held {
			t.Errorf("after %d bytes: the head is held: %v", takes, c.HoldsHead())
		}
	}
}

// All else is copied.
func TestOtherBodiesAreCopied(t *testing.T) {
	ours, theirs := net.Pipe()
	c := &Conn{Conn: ours}
	go func() {
		_, _ = c.ReadFrom(io.LimitReader(bytes.NewReader([]byte("limited, ")), 9))
		_, _ = c.ReadFrom(bytes.NewReader([]byte("plain")))
		_ = c.Close()
	}()
	if got, err := io.ReadAll(theirs); string(got) != "limited, plain" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}
