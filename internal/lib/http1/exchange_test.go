package http1

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// The head of an answer has its time from when the request has left, whether or not that has a long body, which may take long to leave
// if it goes on. The body of the answer has all time.
func TestResponseHeaderTimeout(t *testing.T) {
	for _, size := range []int{1, 100_000} {
		synctest.Test(t, func(t *testing.T) {
			h := serve(t, func(conn net.Conn, n int64) {
				from := bufio.NewReader(readSlowly(conn))
				_ = readRequest(from)
				if n == 2 {
					time.Sleep(time.Minute - 1)
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
					time.Sleep(time.Hour)
					_, _ = io.WriteString(conn, "ok")
				}
				_, _ = io.Copy(io.Discard, from)
			})
			h.settings.ResponseHeaderTimeout = time.Minute
			tr := h.transport(t)
			began := time.Now()
			_, err := tr.RoundTrip(post(t.Context(), size))
			var timeout net.Error
			if took := time.Since(began); !errors.As(err, &timeout) || !timeout.Timeout() || took != slowly+time.Minute {
				t.Errorf("%v after %v", err, took)
			}
			if got := call(t, tr, post(t.Context(), size)); got != "ok" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// slowly is how long readSlowly takes.
const slowly = 50 * 40 * time.Second

// readSlowly reads the first bytes, each after a while, and returns all.
func readSlowly(conn net.Conn) io.Reader {
	begin := make([]byte, 50)
	for i := range begin {
		time.Sleep(slowly / 50)
		_, _ = conn.Read(begin[i : i+1])
	}
	return io.MultiReader(strings.NewReader(string(begin)), conn)
}

// A long request of which nothing is read ends with the time of its answer. What was read of it before does not count.
func TestUnreadInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := serve(t, func(conn net.Conn, _ int64) {
			_ = readSlowly(conn)
			time.Sleep(time.Hour)
		})
		h.settings.ResponseHeaderTimeout = time.Minute
		began := time.Now()
		_, err := h.transport(t).RoundTrip(post(t.Context(), 100_000))
		took := time.Since(began) - slowly
		if !errors.Is(err, os.ErrDeadlineExceeded) || took < time.Minute || took > time.Minute*5/4+mostLate {
			t.Errorf("%v, %v after the last byte", err, took)
		}
	})
}

// The end of the context ends the exchange wherever it is, closes the connection, and is the error.
func TestCancellation(t *testing.T) {
	why := errors.New("the caller has gone")
	for name, c := range map[string]struct {
		serve func(net.Conn, int64)
		size  int
		body  bool // it ends in the body of the answer
	}{
		"while a short request is written": {serve: func(conn net.Conn, _ int64) { time.Sleep(time.Hour) }, size: 1},
		"while a long request is written":  {serve: func(conn net.Conn, _ int64) { time.Sleep(time.Hour) }, size: 100_000},
		"while the answer is awaited":      {serve: waits, size: 1},
		"while that of a long one is":      {serve: waits, size: 100_000},
		"in the body": {serve: func(conn net.Conn, _ int64) {
			_ = readRequest(bufio.NewReader(conn))
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")
			waits(conn, 0)
		}, size: 1, body: true},
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			tr := serve(t, c.serve).transport(t)
			time.AfterFunc(time.Minute, func() { cancel(why) })
			began := time.Now()
			resp, err := tr.RoundTrip(post(ctx, c.size))
			if c.body && err == nil {
				_, err = io.ReadAll(resp.Body)
			}
			if took := time.Since(began); !errors.Is(err, why) || took != time.Minute {
				t.Errorf("%v after %v", err, took)
			}
			if len(tr.idle.hosts["host"]) > 0 {
				t.Error("the connection is kept")
			}
		})
	}
}

// heedful is a context that is told when somebody listens to it.
type heedful struct {
	context.Context
	listened func()
}

// AfterFunc is found by package cancel.
func (h heedful) AfterFunc(f func()) func() bool {
	h.listened()
	return context.AfterFunc(h.Context, f)
}

// The server has a short request before anybody listens for the end of its context.
func TestListensOnceSent(t *testing.T) {
	has := make(chan struct{})
	tr := serveTCP(t, func(conn net.Conn, _ int64) {
		if readRequest(bufio.NewReader(conn)) != nil {
			t.Error("it has not come")
		}
		close(has)
		_, _ = io.WriteString(conn, ok)
		waits(conn, 0)
	}).transport(t)
	ctx := heedful{t.Context(), func() {
		select {
		case <-has:
		case <-time.After(10 * time.Second):
			t.Error("it was listened to before the request had left")
		}
	}}
	resp := testkit.Must(tr.RoundTrip(post(ctx, 1000)))(t)
	_ = resp.Body.Close()
}

// A short request that the server does not take ends with its context, too.
func TestCancellation_OfWaitingWrites(t *testing.T) {
	host := serveTCP(t, func(conn net.Conn, _ int64) { <-t.Context().Done() })
	dial := host.settings.DialContext
	host.settings.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		for err == nil { // until the buffers of both sockets are full
			_ = conn.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
			_, err = conn.Write(make([]byte, 1<<20))
		}
		return conn, conn.SetWriteDeadline(time.Time{})
	}
	ctx, end := context.WithCancel(t.Context())
	listened := make(chan struct{})
	go func() { <-listened; end() }()
	_, err := host.transport(t).RoundTrip(post(heedful{ctx, func() { close(listened) }}, 1000))
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A request whose context has ended opens no connection, and its body is closed. So it is if none can be opened.
func TestNotBegun(t *testing.T) {
	h := serve(t, waits)
	tr := h.transport(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	refused := New(&http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }})
	for _, c := range []struct {
		through *Transport
		ctx     context.Context
		want    error
	}{{tr, ctx, context.Canceled}, {refused, t.Context(), net.ErrClosed}} {
		r := post(c.ctx, 1)
		body := &closing{ReadCloser: r.Body}
		r.Body = body
		if _, err := c.through.RoundTrip(r); !errors.Is(err, c.want) {
			t.Errorf("%v, want %v", err, c.want)
		}
		if !body.closed {
			t.Error("the body is not closed")
		}
	}
	if n := h.dialed.Load(); n > 0 {
		t.Errorf("%d connections", n)
	}
}

type closing struct {
	io.ReadCloser
	closed bool
}

// Close implements io.Closer.
func (c *closing) Close() error { c.closed = true; return c.ReadCloser.Close() }

// An answer that comes before the request was read is passed on, and the connection is kept if the server reads on.
func TestEarlyAnswers(t *testing.T) {
	const refused = "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"
	for name, c := range map[string]struct {
		then func(net.Conn)
		want int64 // connections for two calls
	}{
		"and it closes":    {func(net.Conn) {}, 2},
		"and it waits":     {func(net.Conn) { time.Sleep(time.Hour) }, 2},
		"and it reads all": {func(conn net.Conn) { answering(refused)(conn, 0) }, 1},
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			h := serve(t, func(conn net.Conn, n int64) {
				head := make([]byte, 10)
				_, _ = io.ReadFull(conn, head)
				_, _ = io.WriteString(conn, refused)
				if c.want == 2 {
					c.then(conn)
					return
				}
				_ = readRequest(bufio.NewReader(io.MultiReader(strings.NewReader(string(head)), conn)))
				c.then(conn)
			})
			tr := h.transport(t)
			for range 2 {
				began := time.Now()
				if got := call(t, tr, post(t.Context(), 1_000_000)); got != "no" {
					t.Errorf("got %q", got)
				}
				if took := time.Since(began); took > mostLate {
					t.Errorf("it took %v", took)
				}
			}
			if n := h.dialed.Load(); n != c.want {
				t.Errorf("%d connections, want %d", n, c.want)
			}
		})
	}
}

// Heads of answers are bounded, interim ones and all.
func TestLongHeads(t *testing.T) {
	for _, name := range []string{"header of 300 KB", "103 without end"} {
		if _, err := serve(t, answering(rawAnswers[name])).transport(t).RoundTrip(get(t.Context())); !errors.Is(err, errLongHead) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// If the head of an answer comes before the request has left, its body has all time as well.
func TestEarlyHeadsHaveNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := serve(t, func(conn net.Conn, _ int64) {
			head := make([]byte, 10)
			_, _ = io.ReadFull(conn, head)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
			_ = readRequest(bufio.NewReader(io.MultiReader(strings.NewReader(string(head)), conn)))
			time.Sleep(time.Hour)
			_, _ = io.WriteString(conn, "ok")
		})
		h.settings.ResponseHeaderTimeout = time.Minute
		if got := call(t, h.transport(t), post(t.Context(), 100_000)); got != "ok" {
			t.Errorf("got %q", got)
		}
	})
}

// fragile is a connection that takes so many bytes of the next requests, and no more.
type fragile struct {
	net.Conn
	takes atomic.Int64
}

// Write implements io.Writer.
func (c *fragile) Write(p []byte) (int, error) {
	n := min(int(c.takes.Load()), len(p))
	c.takes.Add(-int64(n))
	if n < len(p) {
		_, _ = c.Conn.Write(p[:n])
		return n, errors.New("broken pipe")
	}
	return c.Conn.Write(p)
}

// breakable makes the first connection of a host fragile. It takes a first request whole.
func (h *host) breakable() *fragile {
	first := &fragile{}
	first.takes.Store(1 << 40)
	dial := h.settings.DialContext
	h.settings.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if first.Conn == nil {
			first.Conn = conn
			conn = first
		}
		return conn, err
	}
	return first
}

// A server may answer and close before it has read all, so that writing fails. Its answer counts.
func TestAnswerBehindFailedWrite(t *testing.T) {
	for _, size := range []int{20_000, 100_000} {
		h := serve(t, func(conn net.Conn, _ int64) {
			_, _ = conn.Read(make([]byte, 10_000))
			_, _ = io.WriteString(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
		})
		first := h.breakable()
		first.takes.Store(50)
		tr := h.transport(t)
		if got := call(t, tr, post(t.Context(), size)); got != "no" {
			t.Errorf("%d bytes: got %q", size, got)
		}
		if len(tr.idle.hosts["host"]) > 0 {
			t.Error("the connection is kept")
		}
	}
}

// On a kept connection that turns out to be dead a request is sent again if nothing has left, and if its body can be had again.
// Once a byte has left, only a GET is.
func TestNothingIsSentTwice(t *testing.T) {
	for name, c := range map[string]struct {
		takes int64
		get   bool
		once  bool // the body cannot be had again
		again bool
	}{
		"nothing left":              {takes: 0, again: true},
		"nothing of a GET left":     {takes: 0, get: true, again: true},
		"nothing left of what goes": {takes: 0, once: true},
		"a byte left":               {takes: 1},
		"a byte of a GET left":      {takes: 1, get: true, again: true},
		"all left, and no answer":   {takes: 1 << 30},
	} {
		for _, size := range []int{1, 100_000} {
			h := serve(t, func(conn net.Conn, n int64) {
				from := bufio.NewReader(conn)
				_ = readRequest(from)
				_, _ = io.WriteString(conn, ok)
				_, _ = from.ReadByte() // and of the next one no more than it has to
			})
			first := h.breakable()
			tr := h.transport(t)
			_ = call(t, tr, get(t.Context()))
			first.takes.Store(c.takes)
			r := post(t.Context(), size)
			if c.get {
				r = get(t.Context())
			}
			if c.once {
				r.GetBody = nil
			}
			resp, err := tr.RoundTrip(r)
			if err == nil {
				_ = resp.Body.Close()
			}
			if again := err == nil; again != c.again {
				t.Errorf("%s, %d bytes: sent again %v (%v)", name, size, again, err)
			}
			if unsent := errors.Is(err, ErrNotSent); err != nil && unsent != (c.takes == 0) {
				t.Errorf("%s, %d bytes: nothing has left %v (%v)", name, size, unsent, err)
			}
		}
	}
}

// A GET whose answer does not come in time on a kept connection has arrived, and is not sent again on another one.
func TestLateAnswersAreNotAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var arrived atomic.Int64
		h := serve(t, func(conn net.Conn, _ int64) {
			from := bufio.NewReader(conn)
			_ = readRequest(from)
			time.Sleep(time.Second) // so that the other connection is in use still
			_, _ = io.WriteString(conn, ok)
			for readRequest(from) == nil {
				arrived.Add(1)
			}
		})
		h.settings.ResponseHeaderTimeout = time.Minute
		tr := h.transport(t)
		var kept sync.WaitGroup
		for range 2 {
			kept.Go(func() { _ = call(t, tr, get(t.Context())) })
		}
		kept.Wait()
		began := time.Now()
		_, err := tr.RoundTrip(get(t.Context()))
		if took := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || took != time.Minute {
			t.Errorf("%v after %v", err, took)
		}
		if n := arrived.Load(); n != 1 {
			t.Errorf("it arrived %d times", n)
		}
	})
}

// A request whose body cannot be read whole ends, and so does its connection.
func TestBrokenBody(t *testing.T) {
	for _, size := range []int{1_000, 100_000} {
		r := post(t.Context(), size)
		r.Body = io.NopCloser(io.MultiReader(io.LimitReader(r.Body, 500), brokenReader{}))
		if _, err := serve(t, waits).transport(t).RoundTrip(r); err == nil || err.Error() != errBroken.Error() {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

var errBroken = errors.New("the body is broken")

type brokenReader struct{}

// Read implements io.Reader.
func (brokenReader) Read([]byte) (int, error) { return 0, errBroken }

const half = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nok"

// halfAnswer answers with half a body, and waits.
func halfAnswer(conn net.Conn, _ int64) {
	from := bufio.NewReader(conn)
	_ = readRequest(from)
	_, _ = io.WriteString(conn, half)
	_, _ = io.Copy(io.Discard, from)
}

// A body that is closed before its end takes its connection with it, also while somebody waits for more of it.
func TestClosedBodies(t *testing.T) {
	h := serve(t, halfAnswer)
	tr := h.transport(t)
	for i := range 20 {
		resp := testkit.Must(tr.RoundTrip(get(t.Context())))(t)
		if i%2 == 0 {
			go func() { _ = resp.Body.Close() }()
			if _, err := io.ReadAll(resp.Body); err == nil {
				t.Error("half a body is whole")
			}
		}
		_ = resp.Body.Close()
		_ = resp.Body.Close()
		if _, err := resp.Body.Read(make([]byte, 1)); err == nil {
			t.Error("a closed body can be read")
		}
	}
	if n := h.dialed.Load(); n != 20 {
		t.Errorf("%d connections", n)
	}
}

// An exchange has no goroutine of its own while it waits for more of the answer.
func TestNoGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := serve(t, halfAnswer).transport(t)
		for range 10 {
			resp := testkit.Must(tr.RoundTrip(post(t.Context(), 100_000)))(t)
			defer resp.Body.Close()
		}
		synctest.Wait()
		all := make([]byte, 1<<20)
		all = all[:runtime.Stack(all, true)]
		if n := strings.Count(string(all), "http1.(*exchange)"); n > 0 {
			t.Errorf("%d goroutines of exchanges: %s", n, all)
		}
	})
}

// A short exchange allocates little more than net/http's parser does, and the server of the test.
func TestAllocations(t *testing.T) {
	h := serveTCP(t, answering(ok))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := get(ctx)
	of := func(through http.RoundTripper) uint64 {
		return testkit.Allocs(t, 200, func() {
			resp := testkit.Must(through.RoundTrip(r))(t)
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		})
	}
	ours := of(h.transport(t))
	theirs := of(h.settings)
	h.settings.CloseIdleConnections()
	t.Logf("%d allocations, %d of net/http's transport, with those of the server", ours, theirs)
	if ours+15 > theirs {
		t.Errorf("%d allocations, %d of net/http's transport", ours, theirs)
	}
}
