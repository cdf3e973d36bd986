package http1

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// waiting waits before each read.
type waiting struct{ *exchange }

// Read implements io.Reader.
func (w waiting) Read(p []byte) (int, error) {
	w.Wait()
	return w.exchange.Read(p)
}

// patient is a transport whose answers are waited for before they are read.
type patient struct{ through http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (p patient) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := p.through.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if x, ok := resp.Body.(*exchange); ok {
		resp.Body = waiting{x}
	}
	return resp, nil
}

// Answers that are waited for, on sockets, are the same as those that are not.
func TestWaitedAnswersAreTheSame(t *testing.T) {
	log.SetOutput(io.Discard) // of net/http, about surplus bytes
	for name, raw := range rawAnswers {
		t.Run(name, func(t *testing.T) {
			checkAlike(t, patient{serveTCP(t, once(raw)).transport(t)}, http.MethodGet, raw)
		})
	}
}

const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"

// begin returns the exchange of a call whose answer has begun, and the hello in it was read.
func begin(t *testing.T, tr *Transport, ctx context.Context) *exchange {
	t.Helper()
	resp := testkit.Must(tr.RoundTrip(get(ctx)))(t)
	x := resp.Body.(*exchange)
	testkit.Must(io.ReadFull(waiting{x}, make([]byte, len("hello"))))(t)
	return x
}

// No buffer is held while nothing comes: neither for an answer nor in the midst of one, nor by a connection that is kept.
func TestWaitingHoldsNoBuffer(t *testing.T) {
	for name, c := range map[string]struct{ begun, rest string }{
		"chunked":    {chunked, "0\r\n\r\n"},
		"odd chunks": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n", "0\r\n\r\n"},
		"length":     {"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", "!"},
	} {
		t.Run(name, func(t *testing.T) { checkHolds(t, c.begun, c.rest, func(x *exchange) io.Reader { return waiting{x} }) })
		t.Run(name+", waited for by a read", func(t *testing.T) { checkHolds(t, c.begun, c.rest, func(x *exchange) io.Reader { return x }) })
	}
}

// checkHolds checks it for an answer of these two parts.
func checkHolds(t *testing.T, begun, rest string, reader func(*exchange) io.Reader) {
	var x *exchange
	var held []bool
	look := func() { held = append(held, x.conn.reader.lender != nil) }
	h := serveTCP(t, func(conn net.Conn, _ int64) {
		from := bufio.NewReader(conn)
		_ = readRequest(from)
		_, _ = io.WriteString(conn, begun)
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		_, _ = io.ReadFull(from, make([]byte, 1)) // until the test has read that
		_ = conn.SetReadDeadline(time.Time{})
		_, _ = io.WriteString(conn, rest)
		_, _ = io.Copy(io.Discard, from)
	})
	tr := h.transport(t)
	x = begin(t, tr, t.Context())
	c := x.conn
	arrived := c.arrived
	c.arrived = func(fd uintptr) bool { // the poller calls it before each sleep
		done := arrived(fd)
		look()
		if !done {
			_, _ = io.WriteString(c.Conn, "x")
		}
		return done
	}
	testkit.Must(io.ReadAll(reader(x)))(t)
	look()
	if len(held) != 3 || held[0] || !held[1] || held[2] {
		t.Errorf("a buffer is held: %t; want only when something has come, the second time of three", held)
	}
	if tr.idle.pop("host") != c {
		t.Error("the connection is not kept")
	}
	_ = c.Close()
}

// What fills the reader's own memory is read straight into that.
func TestLargeReadsHoldNoBuffer(t *testing.T) {
	read := make(chan bool)
	h := serveTCP(t, func(conn net.Conn, _ int64) {
		_ = readRequest(bufio.NewReader(conn))
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nhello")
		<-read
		_, _ = io.WriteString(conn, "more")
		<-read
	})
	x := begin(t, h.transport(t), t.Context())
	defer x.Close()
	read <- true
	n, err := x.Read(make([]byte, readerBuffer))
	if held := x.conn.reader.lender != nil; n != len("more") || err != nil || held {
		t.Errorf("%d bytes, %v; a buffer is held: %t", n, err, held)
	}
	read <- true
}

// A Wait tells whether the next Read returns at once. Of what is no socket it cannot tell.
func TestWaitTells(t *testing.T) {
	for name, c := range map[string]struct {
		over  func(*testing.T, func(net.Conn, int64)) *host
		tells bool
	}{
		"socket": {serveTCP, true},
		"pipe":   {serve, false},
	} {
		t.Run(name, func(t *testing.T) {
			read := make(chan bool)
			h := c.over(t, func(conn net.Conn, _ int64) {
				_ = readRequest(bufio.NewReader(conn))
				_, _ = io.WriteString(conn, chunked)
				<-read
				_, _ = io.WriteString(conn, "0\r\n\r\n")
			})
			resp := testkit.Must(h.transport(t).RoundTrip(get(t.Context())))(t)
			x := resp.Body.(*exchange)
			_, _ = x.Read(make([]byte, 1))
			if here := x.Wait(); !here {
				t.Error("not even of bytes that came along with others")
			}
			_, _ = io.ReadFull(x, make([]byte, len("hello")-1))
			close(read)
			if come := x.Wait(); come != c.tells {
				t.Errorf("%v of what comes next", come)
			}
			_ = x.Close()
			if over := x.Wait(); !over {
				t.Error("not of the end")
			}
		})
	}
}

// The error of a connection that breaks while its answer is waited for is that of the next Read.
func TestErrorWhileWaiting(t *testing.T) {
	read := make(chan bool)
	h := serveTCP(t, func(conn net.Conn, _ int64) {
		_ = readRequest(bufio.NewReader(conn))
		_, _ = io.WriteString(conn, chunked)
		<-read
		_ = conn.(*net.TCPConn).SetLinger(0) // it ends by a reset
	})
	x := begin(t, h.transport(t), t.Context())
	close(read)
	x.Wait()
	if _, err := x.Read(make([]byte, 10)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v", err)
	}
}

// A Wait ends with the call, whoever ends it.
func TestWaitEnds(t *testing.T) {
	gone := errors.New("the caller has gone")
	for name, c := range map[string]struct {
		end  func(*exchange, context.CancelCauseFunc)
		want error
	}{
		"closed":    {func(x *exchange, _ context.CancelCauseFunc) { _ = x.Close() }, http.ErrBodyReadAfterClose},
		"cancelled": {func(_ *exchange, cancel context.CancelCauseFunc) { cancel(gone) }, gone},
	} {
		t.Run(name, func(t *testing.T) {
			h := serveTCP(t, func(conn net.Conn, n int64) {
				_, _ = io.WriteString(conn, chunked)
				waits(conn, n)
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			x := begin(t, h.transport(t), ctx)
			parked := make(chan bool, 1)
			arrived := x.conn.arrived
			x.conn.arrived = func(fd uintptr) bool {
				done := arrived(fd)
				parked <- true
				return done
			}
			go func() {
				<-parked
				c.end(x, cancel)
			}()
			x.Wait()
			if _, err := x.Read(make([]byte, 10)); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if x.conn.reader.lender != nil {
				t.Error("the buffer is not given back")
			}
		})
	}
}

// A read returns all chunks that have come, and the end along with the last of them. It waits for no part of the next one, whether that has
// begun or not.
func TestChunksThatHaveCome(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, c := range map[string]struct {
		pieces []string
		want   []string
	}{
		"all at once":        {[]string{head + "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"}, []string{"abc EOF"}},
		"end behind them":    {[]string{head + "1\r\na\r\n2\r\nbc\r\n", "0\r\n\r\n"}, []string{"abc", " EOF"}},
		"half an end":        {[]string{head + "1\r\na\r\n2\r\nbc\r\n0\r\n", "\r\n"}, []string{"abc", " EOF"}},
		"half a chunk":       {[]string{head + "1\r\na\r\n2\r\nb", "c\r\n0\r\n\r\n"}, []string{"ab", "c EOF"}},
		"no line end":        {[]string{head + "1\r\na\r\n2\r\nbc", "\r\n0\r\n\r\n"}, []string{"abc", " EOF"}},
		"half a line end":    {[]string{head + "1\r\na\r\n2\r\nbc\r", "\n0\r\n\r\n"}, []string{"abc", " EOF"}},
		"half a size":        {[]string{head + "1\r\na\r\n0", "2\r\nbc\r\n0\r\n\r\n"}, []string{"a", "bc EOF"}},
		"a size":             {[]string{head + "1\r\na\r\n2\r\n", "bc\r\n0\r\n\r\n"}, []string{"a", "bc EOF"}},
		"an extension later": {[]string{head + "1\r\na\r\n2;x=y\r\nbc\r\n0\r\n\r\n"}, []string{"a", "bc EOF"}},
		"more than is asked": {[]string{head + "14\r\n0123456789abcdefghij\r\n0\r\n\r\n"}, []string{"0123456789abcdef", "ghij EOF"}},
		"as much as asked":   {[]string{head + "10\r\n0123456789abcdef\r\n0\r\n\r\n"}, []string{"0123456789abcdef EOF"}},
	} {
		t.Run(name, func(t *testing.T) {
			read := make(chan bool)
			defer close(read)
			h := serve(t, func(conn net.Conn, _ int64) {
				_ = readRequest(bufio.NewReader(conn))
				for _, piece := range c.pieces {
					_, _ = io.WriteString(conn, piece)
					<-read
				}
			})
			resp := testkit.Must(h.transport(t).RoundTrip(get(t.Context())))(t)
			defer resp.Body.Close()
			for i, want := range c.want {
				p := make([]byte, 16)
				n, err := resp.Body.Read(p)
				got := string(p[:n])
				if err != nil {
					got += " " + err.Error()
				}
				if got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				if i == 0 && len(c.pieces) > 1 {
					read <- true
				}
			}
		})
	}
}
