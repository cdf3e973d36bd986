package streaming

import (
	"io"
	"sync"
	"time"
)

// readSize is how many bytes are asked of upstream at once, at the least.
const readSize = 2 << 10

// Body passes an event stream on and meters it. Read must not be called concurrently with itself;
// Close may be called at any time, and more than once.
type Body struct {
	upstream io.ReadCloser
	opt      Options
	in       []byte // for readers with little room; made when the first one comes
	readErr  error  // upstream's error, after the bytes fed last; or the end of nothing; set under mu by the reader alone

	mu        sync.Mutex
	scan      Scanner // guarded by mu, as all below
	meter     Meter
	out       []byte      // to be read before anything else
	events    int64       // up to the end: how many come along behind it depends on the size of the pieces
	unread    bool        // the last event with data was too large to be understood
	large     *large      // reads an event that comes in pieces; nil while there is none
	dropLF    bool        // a withheld event ended in CR: if its LF comes late, it is withheld, too
	due       calls       // callbacks to be made by the next Read or Close
	told      bool        // First has been called, or is due
	progress  time.Time   // of the last Progress
	idleTimer *time.Timer // runs from the first wait until upstream has ended
	waiting   time.Time   // since when a read of upstream is under way; zero if none is
	begun     bool        // something was passed on
	quiet     bool        // Quiet has been called, or need not be
	idled     bool        // upstream was silent for too long
	closed    bool
	left      bool // closed before the terminal event had been read
	ended     bool // nothing more comes from upstream
	reported  bool // End has been called or is about to be
}

// NewBody returns a body that reads the event stream of upstream.
func NewBody(upstream io.ReadCloser, opt Options) *Body {
	return &Body{
		upstream: upstream,
		opt:      opt,
		scan:     Scanner{MaxEvent: opt.MaxEvent},
	}
}

// Read returns whole events as soon as there is one, and waits for upstream only if there is none.
// After a break it returns the error event. io.EOF comes along with the last bytes if upstream ends with these.
func (b *Body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	b.runDue()
	for {
		n, end, over := b.take(p)
		end()
		if over == nil && b.readErr != nil && n < len(p) { // all that came is in p
			over = b.finish()
		}
		if n > 0 || over != nil {
			return n, over
		}
		if b.readErr == nil {
			b.fill(p)
		}
	}
}

// Wait returns once upstream has sent something, or there is something to be read anyway, and true. Until then it needs no memory to
// read to. It returns false at once if upstream has no such method, or that returns false.
func (b *Body) Wait() bool {
	upstream, ok := b.upstream.(interface{ Wait() bool })
	if !ok {
		return false
	}
	b.runDue()
	return !b.beginWait() || upstream.Wait()
}

// beginWait begins to wait for upstream, and reports false if there is something to be read anyway.
func (b *Body) beginWait() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.ended || b.readErr != nil || len(b.out) > 0 || b.scan.at < len(b.scan.in) {
		return false
	}
	b.armLocked()
	return true
}

// runDue makes the calls that the last Read left due.
func (b *Body) runDue() {
	b.mu.Lock()
	due := b.takeDueLocked()
	b.mu.Unlock()
	due.run(&b.opt)
}

// Close ends the stream, if it has not ended, and closes upstream. Events that had come but were
// not read are still metered, since upstream produced them.
func (b *Body) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	b.left = !b.meter.done || len(b.out) > 0
	if b.idleTimer != nil {
		b.idleTimer.Stop()
	}
	for !b.ended {
		ev, ok := b.scan.Next()
		if !ok {
			break
		}
		b.observeLocked(ev)
	}
	due := b.takeDueLocked()
	end := b.endLocked(ErrClosed, nil)
	b.mu.Unlock()
	due.run(&b.opt)
	err := b.upstream.Close()
	end()
	return err
}

// take fills p with the bytes that are there. It returns end, which makes the result known, once there is one;
// and an error when nothing will come any more.
func (b *Body) take(p []byte) (n int, end func(), over error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, nothingToTell, b.overLocked()
	}
	before := b.meter.Deltas()
	for n < len(p) {
		if len(b.out) == 0 {
			b.skimLocked(len(p) - n)
		}
		if len(b.out) == 0 {
			ev, ok := b.scan.Next()
			if !ok {
				break
			}
			b.observeLocked(ev)
		}
		c := copy(p[n:], b.out)
		n += c
		b.out = b.out[c:]
	}
	b.begun = b.begun || n > 0
	if b.meter.Deltas() > before {
		b.dueLocked()
	}
	end = nothingToTell
	if b.meter.over() {
		// Nothing that counts can follow. Whoever holds capacity for the answer hears of that before the client
		// does, and without waiting for upstream to close.
		end = b.reportLocked(nil)
	}
	return n, end, b.overLocked()
}

// overLocked is the error behind the last byte, once there is nothing more to read.
func (b *Body) overLocked() error {
	switch {
	case b.closed:
		return ErrClosed
	case b.ended && len(b.out) == 0:
		return io.EOF
	}
	return nil
}

// fill reads upstream once. It is called when nothing that upstream sent earlier is in p or b.in
// any more.
func (b *Body) fill(p []byte) {
	in := b.arm(p)
	n, err := b.upstream.Read(in)
	b.filled(in[:n], err)
}

// filled takes in what a read of upstream came to. It is apart from fill because streams wait in that for long, and hold
// its stack.
func (b *Body) filled(in []byte, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = time.Time{}
	b.readErr = err
	if err != nil && b.idleTimer != nil {
		b.idleTimer.Stop()
	}
	if !b.closed {
		b.scan.Feed(in)
	}
}

// roomLocked is where upstream is read to: the reader's own buffer, behind room for what is kept of
// an event. So take never moves an event to the right, over one that is not scanned yet, and need
// not move most events at all. And since all that was read fits, nothing points into p when Read
// returns.
func (b *Body) roomLocked(p []byte) []byte {
	if kept := len(b.scan.buf); len(p)-kept >= readSize {
		return p[kept:]
	}
	if b.in == nil {
		b.in = make([]byte, readSize)
	}
	return b.in
}

// finish judges the end of upstream, and returns io.EOF unless there is something left to say about it.
func (b *Body) finish() error {
	b.mu.Lock()
	midEvent := b.scan.over
	if b.readErr == io.EOF && !b.closed {
		b.flushLocked()
	}
	cause, err := b.verdictLocked(b.readErr)
	b.mu.Unlock()

	var event []byte
	if cause != Completed && cause != UpstreamFailed && b.opt.ErrorEvent != nil {
		event = b.opt.ErrorEvent(err)
	}
	if midEvent && len(event) > 0 {
		// Pieces of an event are out and cannot be called back. Close it, lest ours be read as its rest.
		event = append([]byte("\n\n"), event...)
	}
	b.mu.Lock()
	end := b.endLocked(b.readErr, event)
	over := b.overLocked()
	b.mu.Unlock()
	end()
	return over
}

// flushLocked takes an event that came without its blank line. It goes to the client if both it and
// the answer are whole; otherwise it is half of something.
func (b *Body) flushLocked() {
	b.unread = b.unread && !b.scan.over
	rest, ok := b.scan.Flush()
	if !ok {
		return
	}
	if kind := b.observeLocked(rest); kind == Opaque || !b.meter.Finished() && !b.meter.Failed() {
		b.out = nil
	}
}

// endLocked ends the stream, the first time it is called, and returns the call that makes the result known.
func (b *Body) endLocked(err error, event []byte) func() {
	if b.ended {
		return nothingToTell
	}
	b.ended = true
	if len(event) > 0 {
		b.out = event
	}
	return b.reportLocked(err)
}

// reportLocked fixes the result, the first time it is called, and returns the call that makes it known.
func (b *Body) reportLocked(err error) func() {
	if b.reported {
		return nothingToTell
	}
	b.reported = true
	due := b.takeDueLocked()
	res := Result{Deltas: b.meter.Deltas(), Events: b.events}
	res.Usage, res.Reported = b.meter.Usage()
	res.NoInput = res.Reported && res.Usage.ofOutput()
	res.Cause, res.Err = b.verdictLocked(err)
	if res.Cause == Completed && !res.Reported && res.Deltas == 0 {
		res.Text = max(1, b.meter.texts)
	}
	return func() {
		due.run(&b.opt)
		if b.opt.End != nil {
			b.opt.End(res)
		}
	}
}

func nothingToTell() {}

func (b *Body) verdictLocked(err error) (Cause, error) {
	finished := b.meter.Finished() || b.unread && err == io.EOF
	cause, err := verdict(b.meter.done && !b.left, finished, b.meter.Failed(), b.idled, err)
	if cause == Truncated && b.readErr == io.EOF && !b.meter.begun() {
		err = ErrEmpty
	}
	return cause, err
}
