package http1

import (
	"context"
	"io"
	"net/http"
	"time"
)

// Read implements io.Reader for the body of the answer.
func (x *exchange) Read(p []byte) (int, error) {
	if err := x.beginRead(); err != nil {
		return 0, err
	}
	n, err := x.body.Read(p)
	return n, x.endRead(err)
}

// Wait returns once a Read has something to return, and true; or false at once if the connection is no TCP socket. Unlike a Read that
// waits, it holds no memory.
func (x *exchange) Wait() bool {
	if x.beginRead() != nil {
		return true
	}
	come := x.conn.reader.wait()
	_ = x.endRead(nil)
	return come
}

// Whole reports whether all of the answer came along with its head, so that no Read waits for the server.
func (x *exchange) Whole() bool { return x.whole }

func (x *exchange) beginRead() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reading = x.ended == nil
	return x.ended
}

func (x *exchange) endRead(err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reading = false
	switch {
	case x.ended != nil: // it was closed meanwhile
		x.conn.reader.giveBack()
	case err != nil:
		x.end(err)
	}
	return x.ended
}

// Close implements io.Closer. Before the end of the answer it closes the connection. It may be called while Read waits, which
// it ends.
func (x *exchange) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended == nil {
		x.end(http.ErrBodyReadAfterClose)
	}
	return nil
}

// end ends the exchange for this reason. At the end of the answer the connection is kept, if nothing else is on its way.
func (x *exchange) end(err error) {
	cancelled := !x.unwatch()
	if cancelled && err != io.EOF && err != http.ErrBodyReadAfterClose {
		err = context.Cause(x.ctx)
	}
	x.ended = err
	kept := err == io.EOF && !cancelled && !x.last && x.conn.reader.Buffered() == 0 && x.allSent()
	if !x.reading {
		x.conn.reader.giveBack()
	}
	if kept {
		x.of.keep(x.conn)
	} else {
		_ = x.conn.Close()
	}
}

// mostLate bounds how long one direction of an exchange may go on when the other has ended.
const mostLate = 50 * time.Millisecond

// allSent reports whether all of the request has left.
func (x *exchange) allSent() bool {
	if x.wrote == nil {
		return x.sendErr == nil
	}
	late := time.AfterFunc(mostLate, x.conn.hangUp)
	<-x.wrote
	return late.Stop() && x.sendErr == nil && x.conn.SetWriteDeadline(time.Time{}) == nil
}
