package streaming

import (
	"math"
	"time"
)

// arm begins one wait for upstream, and returns where to read to. Only such waits count as silence:
// a slow client is not upstream's fault.
func (b *Body) arm(p []byte) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armLocked()
	return b.roomLocked(p)
}

// quietAfter is how long to wait for the first bytes before Quiet is called.
const quietAfter = 10 * time.Millisecond

// armLocked starts the timer at the first wait. It keeps running over later waits: most end long
// before it fires, and setting it anew for each would cost as much as reading the bytes.
func (b *Body) armLocked() {
	if b.closed || b.opt.Idle <= 0 && b.opt.Quiet == nil {
		return
	}
	if b.waiting.IsZero() { // else Wait began it
		b.waiting = time.Now()
	}
	if b.idleTimer != nil {
		return
	}
	first := b.patience()
	if b.opt.Quiet != nil {
		first = min(first, quietAfter)
	}
	b.idleTimer = time.AfterFunc(first, b.idle)
}

// patience is how long upstream may be silent.
func (b *Body) patience() time.Duration {
	if b.opt.Idle <= 0 {
		return math.MaxInt64
	}
	return b.opt.Idle
}

// idle is called by the timer. Unless a wait has lasted too long, it sets the timer to the earliest
// time at which one can have.
func (b *Body) idle() {
	b.mu.Lock()
	left := b.patience()
	if !b.waiting.IsZero() {
		left -= time.Since(b.waiting)
	}
	over := b.closed || b.readErr != nil
	if !over && left > 0 {
		b.idleTimer.Reset(left)
	}
	b.idled = b.idled || !over && left <= 0
	quiet := !over && !b.begun && !b.quiet && b.opt.Quiet != nil
	b.quiet = true
	b.mu.Unlock()
	if quiet {
		b.opt.Quiet()
	}
	switch {
	case over || left > 0:
	case b.opt.Interrupt != nil:
		b.opt.Interrupt(ErrIdle)
	default:
		_ = b.upstream.Close() // it is given up; the Read that waits gets the error
	}
}
