package streaming

import "time"

// arm begins one wait for upstream, and returns where to read to. Only such waits count as silence: a slow client
// is none of upstream's.
func (b *Body) arm(p []byte) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armLocked()
	return b.roomLocked(p)
}

// armLocked starts the timer at the first wait. Later waits let it run on, for most of them end long before it
// fires, and to set it anew for each would cost as much as to read what came.
func (b *Body) armLocked() {
	if b.opt.Idle <= 0 || b.closed {
		return
	}
	b.waiting = time.Now()
	if b.idleTimer == nil {
		b.idleTimer = time.AfterFunc(b.opt.Idle, b.idle)
	}
}

// idle is called by the timer, and sets it anew unless a wait has been on for too long. One that begins before
// it is called again can last to its end.
func (b *Body) idle() {
	b.mu.Lock()
	left := b.opt.Idle
	if !b.waiting.IsZero() {
		left -= time.Since(b.waiting)
	}
	over := b.closed || b.readErr != nil
	if !over && left > 0 {
		b.idleTimer.Reset(left)
	}
	b.idled = b.idled || !over && left <= 0
	b.mu.Unlock()
	switch {
	case over || left > 0:
	case b.opt.Interrupt != nil:
		b.opt.Interrupt(ErrIdle)
	default:
		_ = b.upstream.Close() // it is given up; the Read that waits gets the error
	}
}
