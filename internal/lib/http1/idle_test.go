package http1

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// untilHeard waits until something has come on the idle connection.
func untilHeard(tr *Transport) {
	c := tr.idle.pop("host")
	for c.quiet() {
		runtime.Gosched()
	}
	tr.idle.put(c, 10, 0)
}

// A connection that the server closed while it was idle is not used again.
func TestClosedWhileIdle(t *testing.T) {
	for name, over := range map[string]func(*testing.T, func(net.Conn, int64)) *host{"socket": serveTCP, "pipe": serve} {
		t.Run(name, func(t *testing.T) {
			h := over(t, func(conn net.Conn, _ int64) {
				_ = readRequest(bufio.NewReader(conn))
				_, _ = io.WriteString(conn, ok)
			})
			tr := h.transport(t)
			for i := range 3 {
				r := post(t.Context(), 100)
				r.GetBody = nil
				if got := call(t, tr, r); got != "ok" {
					t.Errorf("call %d: %q", i, got)
				}
				untilHeard(tr)
			}
			if n := h.dialed.Load(); n != 3 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// Bytes that nobody asked for are never read as the answer to the next request, whenever they come.
func TestUnaskedAnswersAreNotRead(t *testing.T) {
	const evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
	for name, later := range map[string]bool{"at once": false, "later": true} {
		for _, answer := range []string{ok, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n"} {
			t.Run(fmt.Sprintf("%s %.12s", name, answer), func(t *testing.T) {
				read := make(chan bool, 1)
				h := serveTCP(t, func(conn net.Conn, n int64) {
					from := bufio.NewReader(conn)
					_ = readRequest(from)
					switch {
					case n > 1:
						_, _ = io.WriteString(conn, ok)
					case later:
						_, _ = io.WriteString(conn, answer)
						<-read
						_, _ = io.WriteString(conn, evil)
					default:
						_, _ = io.WriteString(conn, answer+evil)
					}
					_, _ = io.Copy(io.Discard, from)
				})
				tr := h.transport(t)
				_ = call(t, tr, get(t.Context()))
				read <- true
				if later {
					untilHeard(tr)
				}
				if got := call(t, tr, get(t.Context())); got != "ok" {
					t.Errorf("the second call got %q", got)
				}
			})
		}
	}
}

// Connections are kept for as long, and as many of them, as the settings say.
func TestIdleConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Time, 10)
		h := serve(t, func(conn net.Conn, n int64) {
			answering(ok)(conn, n)
			ended <- time.Now()
		})
		h.settings.MaxIdleConnsPerHost = 2
		tr := h.transport(t)
		var bodies []*http.Response
		for range 3 {
			resp := testkit.Must(tr.RoundTrip(get(t.Context())))(t)
			bodies = append(bodies, resp)
		}
		began := time.Now()
		for _, resp := range bodies {
			_, _ = io.ReadAll(resp.Body)
			time.Sleep(time.Second)
		}
		for i, want := range []time.Duration{2 * time.Second, 90 * time.Second, 91 * time.Second} {
			if got := (<-ended).Sub(began); got != want {
				t.Errorf("connection %d ended after %v, want %v", i, got, want)
			}
		}
	})
}

// CloseIdleConnections closes them.
func TestCloseIdleConnections(t *testing.T) {
	ended := make(chan bool, 1)
	h := serve(t, func(conn net.Conn, n int64) {
		answering(ok)(conn, n)
		ended <- true
	})
	tr := h.transport(t)
	_ = call(t, tr, get(t.Context()))
	tr.CloseIdleConnections()
	<-ended
}

// After CloseIdleConnections no connection is kept whose answer ends before another request asks for one, as with net/http.
func TestCloseIdleConnections_InUse(t *testing.T) {
	for name, of := range map[string]func(h *host) http.RoundTripper{
		"ours":     func(h *host) http.RoundTripper { return New(h.settings) },
		"net/http": func(h *host) http.RoundTripper { return h.settings },
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			h := serve(t, answering(ok))
			tr := of(h)
			t.Cleanup(tr.(interface{ CloseIdleConnections() }).CloseIdleConnections)
			ask := func() *http.Response {
				return testkit.Must(tr.RoundTrip(get(t.Context())))(t)
			}
			end := func(resp *http.Response) {
				_, _ = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				synctest.Wait()
			}
			first := ask()
			second := ask()
			tr.(interface{ CloseIdleConnections() }).CloseIdleConnections()
			end(first)
			third := ask() // by a new connection
			end(second)
			end(third)
			one := ask() // by those of the last two
			other := ask()
			end(one)
			end(other)
			if n := h.dialed.Load(); n != 3 {
				t.Errorf("%d connections were made, want 3", n)
			}
		})
	}
}

// Connections are used again if an answer has ended, and neither side wants them closed.
func TestConnectionsAreKept(t *testing.T) {
	for answer, kept := range map[string]bool{
		ok:                                true,
		"HTTP/1.1 204 No Content\r\n\r\n": true,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n":         true,
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok":          true,
		"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok":                                    false,
		"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok":               false,
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok":       true,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nA: b\r\n\r\n": true,
		"HTTP/1.1 099 What\r\nContent-Length: 2\r\n\r\nok":                                  false,
	} {
		h := serve(t, answering(answer))
		tr := h.transport(t)
		for _, size := range []int{1, 100_000, 5_000} {
			_ = call(t, tr, post(t.Context(), size))
		}
		want := int64(3)
		if kept {
			want = 1
		}
		if n := h.dialed.Load(); n != want {
			t.Errorf("%q: %d connections, want %d", answer, n, want)
		}
		unkept := tr.WithoutKept()
		for range 2 {
			_ = call(t, unkept, post(t.Context(), 1))
		}
		if n := h.dialed.Load(); n != want+2 {
			t.Errorf("%q: %d connections", answer, n-want)
		}
	}
}

// A connection whose request was cancelled is not kept, even if all of the answer had come: it is about to be closed.
func TestCancelledConnectionsAreNotKept(t *testing.T) {
	tr := serve(t, answering(ok)).transport(t)
	ctx, cancel := context.WithCancel(t.Context())
	resp := testkit.Must(tr.RoundTrip(get(ctx)))(t)
	cancel()
	if text, err := io.ReadAll(resp.Body); string(text) != "ok" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if len(tr.idle.hosts["host"]) > 0 {
		t.Error("the connection is kept")
	}
}

// A transport that keeps no connections says so to the server.
func TestWithoutKeptSaysSo(t *testing.T) {
	closes := make(chan bool, 1)
	h := serve(t, func(conn net.Conn, _ int64) {
		r, err := http.ReadRequest(bufio.NewReader(conn))
		closes <- err == nil && r.Close
		_, _ = io.WriteString(conn, ok)
	})
	_ = call(t, h.transport(t).WithoutKept(), get(t.Context()))
	if !<-closes {
		t.Error("the server may keep the connection")
	}
}
