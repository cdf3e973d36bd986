package plain

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/llmgov/llmgov/internal/cancel"
)

// watchAfter is how long a request takes before anybody watches for its client going. Refusals and the like are over by then.
const watchAfter = 5 * time.Millisecond

// watch reads from a connection. While a request is served it reads ahead by one byte, and cancels the request when the
// connection ends.
type watch struct {
	conn  net.Conn
	ctx   *cancel.Context // of the request
	timer *time.Timer     // begins the watch; nil before the first
	begun bool            // the timer was started for this request
	ended chan struct{}   // receives a value when a watch has ended

	mu   sync.Mutex
	over bool // guarded by mu: the request is

	ahead [1]byte
	has   bool // ahead is the next byte
}

// Read implements io.Reader.
func (w *watch) Read(p []byte) (int, error) {
	if w.has && len(p) > 0 {
		p[0] = w.ahead[0]
		w.has = false
		return 1, nil
	}
	return w.conn.Read(p)
}

// begin begins to watch, in a while, once all of a request was read. Nothing else reads from now on until the end.
func (w *watch) begin(c *conn) {
	w.begun = true
	w.over = false
	if w.timer == nil {
		w.ended = make(chan struct{}, 1)
		w.timer = time.AfterFunc(watchAfter, func() { w.run(c) })
	} else {
		w.timer.Reset(watchAfter)
	}
}

// run watches until the connection or the request ends, or the client sends more.
func (w *watch) run(c *conn) {
	defer func() { w.ended <- struct{}{} }()
	if c.reader.Buffered() > 0 {
		return // the next request is there, and with it its client
	}
	c.release()
	w.mu.Lock()
	if !w.over {
		_ = w.conn.SetReadDeadline(time.Time{})
	}
	w.mu.Unlock()
	n, err := w.conn.Read(w.ahead[:])
	w.has = n > 0
	if err != nil {
		w.ctx.Cancel(context.Canceled) // at the end of the request it would be now, too
	}
}

// end ends the watch, so that others can read again.
func (w *watch) end() {
	if !w.begun {
		return
	}
	w.begun = false
	if w.timer.Stop() {
		return
	}
	w.mu.Lock()
	w.over = true
	_ = w.conn.SetReadDeadline(time.Unix(1, 0))
	w.mu.Unlock()
	<-w.ended
}
