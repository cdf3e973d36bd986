package http1

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// What is not plain HTTP/1.1 to the host itself goes by net/http: TLS, proxies, switches of protocols, and what it refuses.
func TestOthersGoByNetHTTP(t *testing.T) {
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secure") }))
	defer secure.Close()
	tr := New(secure.Client().Transport.(*http.Transport))
	defer tr.CloseIdleConnections()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, secure.URL, nil)
	if got := call(t, tr, r); got != "secure" {
		t.Errorf("got %q", got)
	}

	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RequestURI) }))
	defer proxy.Close()
	through, _ := url.Parse(proxy.URL)
	proxied := New(&http.Transport{Proxy: http.ProxyURL(through)})
	defer proxied.CloseIdleConnections()
	if got := call(t, proxied, get(t.Context())); got != "http://host/path" {
		t.Errorf("got %q", got)
	}

	switched := serve(t, answering("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")).transport(t)
	r = get(t.Context())
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	resp := testkit.Must(switched.RoundTrip(r))(t)
	if _, writable := resp.Body.(io.Writer); !writable {
		t.Error("the connection cannot be written to")
	}
	_ = resp.Body.Close()

	bad := get(t.Context())
	bad.Method = "GET / HTTP/1.1\r\nEvil: yes\r\n\r\nGET"
	if _, err := serve(t, answering(ok)).transport(t).RoundTrip(bad); err == nil {
		t.Error("a method that is a request is sent")
	}
}

// Hosts with and without ports, and in brackets, are dialed as net/http does.
func TestAddresses(t *testing.T) {
	for host, want := range map[string]string{"a": "a:80", "a:81": "a:81", "[::1]": "[::1]:80", "[::1]:81": "[::1]:81"} {
		var dialed string
		tr := New(&http.Transport{DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
			dialed = network + " " + address
			return nil, net.ErrClosed
		}})
		r := get(t.Context())
		r.URL.Host = host
		_, _ = tr.RoundTrip(r)
		if dialed != "tcp "+want {
			t.Errorf("%s: dialed %s", host, dialed)
		}
	}
}

// A body in memory leaves along with the head in one system call, byte for byte, on a connection that is used again. A short
// one is copied behind the head.
func TestBodiesInMemoryLeaveInOneWrite(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ := io.ReadAll(r.Body)
		_, _ = w.Write(got)
	}))
	defer server.Close()
	var writes, dialed atomic.Int64
	tr := New(&http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed.Add(1)
		plain, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return testkit.CountedConn{TCPConn: plain.(*net.TCPConn), Writes: &writes}, nil
	}})
	defer tr.CloseIdleConnections()
	for i, size := range []int{400_000, 5_000, 0, 1, 100_000} {
		sent := bytes.Repeat([]byte{'a' + byte(i)}, size)
		var body io.Reader
		if size > 0 {
			m := &memory{}
			m.Reset(sent)
			body = m
		}
		r := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body))(t)
		r.ContentLength = int64(size)
		writes.Store(0)
		if got := call(t, tr, r); got != string(sent) {
			t.Errorf("%d bytes came as %d", size, len(got))
		}
		alone := int64(0) // all in one of several parts
		if size < senderBuffer-1000 {
			alone = 1
		}
		if n := writes.Load(); n != alone {
			t.Errorf("%d bytes: %d writes of one part, want %d", size, n, alone)
		}
	}
	if n := dialed.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// Other bodies come whole as well, of known length and of unknown.
func TestOtherBodies(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprint(w, r.ContentLength, " ", len(got))
	}))
	defer server.Close()
	tr := New(&http.Transport{})
	defer tr.CloseIdleConnections()
	for _, size := range []int{1, 4_000, 8_000, 8_192, 20_000, 200_000} {
		for _, length := range []int64{int64(size), -1} {
			content := bytes.Repeat([]byte("a"), size)
			r := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, bytes.NewReader(content)))(t)
			r.ContentLength = length
			if got, want := call(t, tr, r), fmt.Sprint(length, " ", size); got != want {
				t.Errorf("sent %s, got %s", want, got)
			}
		}
	}
}

// Headers cannot end lines: net/http writes spaces in place of line ends, and leaves names out that are none.
func TestHeadersInjectNothing(t *testing.T) {
	got := make(chan http.Header, 1)
	h := serve(t, func(conn net.Conn, _ int64) {
		r, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			t.Error(err)
			return
		}
		got <- r.Header
		_, _ = io.WriteString(conn, ok)
	})
	r := get(t.Context())
	r.Header["A"] = []string{"b\r\nEvil: 1\r\n\r\nGET /evil HTTP/1.1"}
	r.Header["Evil: 1\r\nC"] = []string{"d"}
	r.Header["User-Agent"] = []string{"e\nEvil: 1"}
	_ = call(t, h.transport(t), r)
	want := http.Header{"A": {"b  Evil: 1    GET /evil HTTP/1.1"}, "User-Agent": {"e Evil: 1"}}
	if diff := cmp.Diff(want, <-got); diff != "" {
		t.Error(diff)
	}
}
