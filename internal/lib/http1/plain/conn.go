package plain

import (
	"bufio"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/internal/lib/cancel"
	"github.com/llmgov/llmgov/internal/lib/socket"
)

// conn is a connection to a client, which serves one request at a time.
type conn struct {
	net.Conn
	socket *socket.Conn // the same
	of     *Server
	others *handed
	remote string
	ctx    *cancel.Context // of all requests

	reader *bufio.Reader // nil while nothing is to be read but a watched end
	watch  watch
	state  atomic.Int32

	header http.Header // of the answer; used again
	names  []string    // of the last header, in order; used again
	last   bool        // no request is served after this one

	writesUntil time.Time // the deadline of writes
}

// The states of a connection.
const (
	idle int32 = iota
	active
	closed // while it was idle
)

func newConn(accepted net.Conn, of *Server, others *handed) *conn {
	c := &conn{Conn: accepted, of: of, others: others, header: http.Header{}}
	if remote := accepted.RemoteAddr(); remote != nil {
		c.remote = remote.String()
	}
	ctx := context.Background()
	if of.BaseContext != nil {
		ctx = of.BaseContext(others)
	}
	ctx = context.WithValue(ctx, http.ServerContextKey, of.Server)
	ctx = context.WithValue(ctx, http.LocalAddrContextKey, accepted.LocalAddr())
	if of.ConnContext != nil {
		ctx = of.ConnContext(ctx, accepted)
	}
	c.ctx = cancel.WithCause(ctx)
	c.socket = socket.New(accepted)
	c.watch.of = c
	return c
}

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }}

func giveBack(r *bufio.Reader) {
	r.Reset(nil)
	readers.Put(r)
}

// serve serves requests until one is not plain, or the connection ends.
func (c *conn) serve() {
	handed := false
	defer func() {
		c.recovered(recover())
		c.watch.end() // because a handler's panic leaves it
		c.ctx.Cancel(context.Canceled)
		if !handed {
			_ = c.Close()
		}
		c.of.remove(c)
	}()
	patience := c.of.ReadHeaderTimeout
	empty := 0
	for {
		if !c.next(patience, empty) {
			return
		}
		come, _ := c.reader.Peek(c.reader.Buffered())
		head, ok := plainHead(come)
		if !ok {
			handed = true
			_ = c.SetWriteDeadline(time.Time{}) // which an earlier request may have left
			c.of.hand(&unread{Conn: c.Conn, first: c.reader}, c.others)
			return
		}
		if !c.request(&head) {
			return
		}
		patience = c.of.IdleTimeout
		empty = mostEmpty
	}
}

// recovered logs the panic of a handler.
func (c *conn) recovered(why any) {
	if why == nil || why == http.ErrAbortHandler {
		return
	}
	printf := log.Printf
	if c.of.ErrorLog != nil {
		printf = c.of.ErrorLog.Printf
	}
	stack := make([]byte, 64<<10)
	stack = stack[:runtime.Stack(stack, false)]
	printf("http: panic serving %s: %v\n%s", c.remote, why, stack)
}

// next waits for the next request, and reports whether one comes. So many bytes of empty lines before it are skipped.
func (c *conn) next(patience time.Duration, empty int) bool {
	if c.reader == nil {
		c.reader = readers.Get().(*bufio.Reader)
		c.reader.Reset(&c.watch)
	}
	deadline := time.Time{}
	if patience > 0 {
		deadline = time.Now().Add(patience)
	}
	_ = c.SetReadDeadline(deadline)
	return c.skipEmptyLines(empty) == nil && c.state.CompareAndSwap(idle, active)
}

// mostEmpty is how many bytes of empty lines are skipped behind a body, as in net/http: some old clients send one.
const mostEmpty = 4

// skipEmptyLines skips at most so many bytes of empty lines, and waits for the next line. It waits for
// two bytes of that: where a watch has read the first one ahead, the others come with the second.
func (c *conn) skipEmptyLines(most int) error {
	for range most {
		first, err := c.reader.Peek(1)
		if err != nil {
			return err
		}
		if first[0] != '\r' && first[0] != '\n' {
			break
		}
		_, _ = c.reader.Discard(1)
	}
	_, err := c.reader.Peek(2)
	return err
}

// closeIdle closes the connection if it serves no request.
func (c *conn) closeIdle() {
	if c.state.CompareAndSwap(idle, closed) {
		_ = c.Conn.Close()
	}
}

// exchange is a request and its answer, in one piece of memory.
type exchange struct {
	ctx    listened
	body   body
	answer response
}

// request serves the request that lies in the reader, with this head. It reports whether another one may come.
func (c *conn) request(h *head) bool {
	x := &exchange{
		ctx:    listened{cancel.Context{Context: c.ctx}, &c.watch},
		body:   body{of: c},
		answer: response{of: c, header: c.header, length: -1},
	}
	defer x.ctx.Cancel(context.Canceled)
	r, err := readRequest(&x.ctx, c.reader, h)
	if err != nil {
		return false
	}
	c.watch.expect(&x.ctx.Context)
	r.RemoteAddr = c.remote
	body := &x.body
	body.left = r.ContentLength
	r.Body = body
	x.answer.request = body
	switch {
	case body.left == 0:
		c.watch.noteCome()
	case !body.isHere():
		_ = c.SetReadDeadline(time.Time{}) // which was that of the head
	}
	c.of.Handler.ServeHTTP(&x.answer, r)
	err = x.answer.finish()
	body.end()
	c.watch.end()
	if err != nil {
		return false
	}
	if c.last {
		c.linger(body)
		return false
	}
	clear(c.header)
	c.state.Store(idle)
	return !c.of.closing.Load()
}

// release gives the reader's buffer back if nothing is in it.
func (c *conn) release() {
	if c.reader.Buffered() == 0 {
		giveBack(c.reader)
		c.reader = nil
	}
}

// A client that is still sending when an answer ends its connection has a while to read the answer, because closing a socket with
// unread bytes can make it lose that. The time is net/http's.
const (
	lingers      = 500 * time.Millisecond
	mostLingered = 4 << 20
)

// linger waits until the client has read the answer, which is when it ends its side, or the time is over. Only so many bytes that it
// sends meanwhile are read.
func (c *conn) linger(b *body) {
	if b.left == 0 || closeWrite(c.Conn) != nil {
		return
	}
	until := time.Now().Add(lingers)
	_ = c.SetReadDeadline(until)
	if _, err := io.CopyN(io.Discard, c.Conn, mostLingered); err != nil {
		return
	}
	over := time.NewTimer(time.Until(until))
	defer over.Stop()
	select {
	case <-over.C:
	case <-c.of.cut:
	}
}

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
