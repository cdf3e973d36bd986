package http1

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/llmgov/llmgov/internal/lib/cancel"
)

// exchange is a request on a connection, and the body of its answer. Streams last, so it does not hold the request.
type exchange struct {
	conn    *conn
	of      *Transport
	ctx     context.Context
	unwatch func() bool // ends the watch of the context
	body    io.Reader
	sized   sized
	chunks  chunks
	last    bool // the connection serves no other request
	whole   bool // all of the answer came along with its head

	sent    int64         // bytes of the request
	sendErr error         // why not all of them
	wrote   chan struct{} // closed once the request was sent; nil if that is before its answer is read

	mu       sync.Mutex
	answered bool  // the head of the answer is there
	reading  bool  // somebody reads the body
	ended    error // why nobody can any more
}

// mostInline bounds the bodies that are sent before the answer is read. Others are sent by a goroutine of their own, since the
// server may answer, and read no further, before it has all.
const mostInline = 32 << 10

// do sends the request, and returns its answer as soon as its head is there.
func (x *exchange) do(r *http.Request) (*http.Response, error) {
	if sendsInline(r) {
		x.conn.socket.OnWait = x.listen
		x.send(r, 0) // so few bytes fit into the buffers of sockets
		x.listen()
		if x.sendErr != nil && x.sent == 0 {
			return nil, x.fail(x.sendErr)
		}
		x.awaitHead()
	} else {
		x.listen()
		x.wrote = make(chan struct{})
		go x.sendBeside(r) // ends at the latest when the connection is closed
	}
	witnessOf(x.ctx).Waits()
	resp, err := x.readHead(r)
	if err != nil {
		return nil, x.fail(err)
	}
	resp.Request = nil
	x.last = resp.Close || r.Close || resp.StatusCode < 200
	if resp.Body == http.NoBody {
		_ = x.endRead(io.EOF)
		return resp, nil
	}
	x.body = x.framedAs(resp)
	x.whole = resp.ContentLength >= 0 && resp.ContentLength <= int64(x.conn.reader.Buffered())
	resp.Body = x
	return resp, nil
}

// framedAs is the body of an answer, which is framed as its head says.
func (x *exchange) framedAs(resp *http.Response) io.Reader {
	from := &x.conn.reader
	switch {
	case len(resp.TransferEncoding) > 0:
		x.chunks = chunks{from: from, trailer: &resp.Trailer}
		return &x.chunks
	case resp.ContentLength >= 0:
		x.sized = sized{io.LimitedReader{R: from, N: resp.ContentLength}}
		return &x.sized
	}
	return from // to the end of the connection
}

// listen lets the end of the context close the connection. A short request has left before it has to: whoever makes the context
// may have to begin to watch for its end.
func (x *exchange) listen() {
	x.conn.socket.OnWait = nil
	if x.unwatch == nil {
		x.unwatch = cancel.AfterFunc(x.ctx, x.conn.hangUp)
	}
}

func sendsInline(r *http.Request) bool {
	if r.Body == nil || r.Body == http.NoBody {
		return true
	}
	return r.ContentLength > 0 && r.ContentLength <= mostInline
}

// send writes the request with its body, and closes that. The server may take nothing for as long as patience lasts; 0 is any time.
func (x *exchange) send(r *http.Request, patience time.Duration) {
	s := newSender(x.conn.socket)
	s.patience = patience
	err := s.request(r)
	if err == nil {
		err = s.flushFrom(1)
	}
	if s.broken != nil {
		err = s.broken // which net/http takes for one of the body
	}
	x.sent = s.sent
	x.sendErr = err
	s.release()
}

func (x *exchange) sendBeside(r *http.Request) {
	x.send(r, x.of.headWithin(x.ctx))
	close(x.wrote)
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.answered {
		x.awaitHead()
	}
}

// awaitHead bounds how long the head of the answer may take from now. Once writing has failed, it can only be there already.
func (x *exchange) awaitHead() {
	within := x.of.headWithin(x.ctx)
	if x.sendErr != nil {
		within = mostLate
	}
	if within > 0 {
		_ = x.conn.SetReadDeadline(time.Now().Add(within))
	}
}

// readHead reads the head of the answer, and skips interim ones. All of them together are bounded.
func (x *exchange) readHead(r *http.Request) (*http.Response, error) {
	c := x.conn
	c.headLeft = x.of.MaxResponseHeaderBytes
	c.reader.await()
	for {
		resp, err := x.readAnswer(r)
		switch {
		case err != nil:
			return nil, err
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, errSwitches
		case resp.StatusCode/100 == 1:
			continue
		}
		c.headLeft = math.MaxInt64
		x.noteAnswered()
		return resp, nil
	}
}

func (x *exchange) noteAnswered() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answered = true
	_ = x.conn.SetReadDeadline(time.Time{})
}

// fail ends an exchange without an answer, and returns why there is none.
func (x *exchange) fail(err error) error {
	_ = x.conn.Close()
	if x.wrote != nil {
		<-x.wrote
	}
	if x.sendErr != nil {
		err = x.sendErr
	}
	return x.endRead(err)
}

// again returns the request for another connection if its own was a kept one, which the server closed just then; nil if the
// request may have arrived, and must not do so twice. One whose answer is late has.
func (x *exchange) again(r *http.Request, err error) *http.Request {
	empty := r.Body == nil || r.Body == http.NoBody
	safe := empty && (r.Method == http.MethodGet || r.Method == http.MethodHead)
	heard := x.conn.headLeft < x.of.MaxResponseHeaderBytes
	late := errors.Is(err, os.ErrDeadlineExceeded)
	if !x.conn.reused || heard || late || r.Context().Err() != nil || x.sent > 0 && !safe {
		return nil
	}
	if empty {
		return r
	}
	if r.GetBody == nil {
		return nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil
	}
	r = r.WithContext(r.Context()) // a copy
	r.Body = body
	return r
}
