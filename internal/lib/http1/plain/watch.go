package plain

import (
	"context"
	"sync"
	"time"

	"github.com/llmgov/llmgov/internal/lib/cancel"
)

// watchAfter is how long somebody listens before the client is watched. Short calls are over by then.
const watchAfter = 5 * time.Millisecond

// watch reads from a connection. While a request is served it reads ahead by one byte, and cancels the request when the
// connection ends.
type watch struct {
	of    *conn
	ctx   *cancel.Context // of the request
	timer *time.Timer     // begins the watch; nil before the first
	ended chan struct{}   // receives a value when a watch has ended

	mu       sync.Mutex
	come     bool // guarded by mu: all of the request has
	listened bool // guarded by mu: somebody wants to know of the end of its context
	begun    bool // guarded by mu: the timer was started for it
	over     bool // guarded by mu: it is

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
	return w.of.socket.Read(p)
}

// expect makes ready for a request with this context.
func (w *watch) expect(ctx *cancel.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx = ctx
	w.come, w.listened, w.over = false, false, false
}

// noteCome notes that all of the request was read. Nothing else reads from now on until the end of the watch.
func (w *watch) noteCome() { w.note(&w.come) }

// noteListened notes that somebody listens to the request's context. Any goroutine may call it, also when the request is over.
func (w *watch) noteListened() { w.note(&w.listened) }

// note begins to watch, in a while, once there is both what to watch and who wants to know.
func (w *watch) note(what *bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*what = true
	if !w.come || !w.listened || w.begun || w.over {
		return
	}
	w.begun = true
	if w.timer == nil {
		w.ended = make(chan struct{}, 1)
		w.timer = time.AfterFunc(watchAfter, w.run)
	} else {
		w.timer.Reset(watchAfter)
	}
}

// run watches until the connection or the request ends, or the client sends more.
func (w *watch) run() {
	defer func() { w.ended <- struct{}{} }()
	if w.of.reader.Buffered() > 0 {
		return // the next request is there, and with it its client
	}
	w.of.release()
	w.mu.Lock()
	if !w.over {
		_ = w.of.SetReadDeadline(time.Time{})
	}
	w.mu.Unlock()
	n, err := w.of.Read(w.ahead[:])
	w.has = n > 0
	if err != nil {
		w.ctx.Cancel(context.Canceled) // at the end of the request it would be now, too
	}
}

// end ends the watch, so that others can read again.
func (w *watch) end() {
	if !w.endNow() || w.timer.Stop() {
		return
	}
	w.mu.Lock()
	_ = w.of.SetReadDeadline(time.Unix(1, 0))
	w.mu.Unlock()
	<-w.ended
}

// endNow reports whether a watch was begun.
func (w *watch) endNow() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	begun := w.begun
	w.begun = false
	w.over = true
	return begun
}

// listened is the context of a request whose client is watched from when somebody listens for its end.
type listened struct {
	cancel.Context
	watch *watch
}

// Done implements context.Context.
func (l *listened) Done() <-chan struct{} {
	l.watch.noteListened()
	return l.Context.Done()
}

// AfterFunc is found by package context, and by package cancel.
func (l *listened) AfterFunc(f func()) (stop func() bool) {
	l.watch.noteListened()
	return l.Context.AfterFunc(f)
}
