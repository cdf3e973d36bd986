package streaming

import "time"

// arm starts the idle timer for one wait. It runs only while upstream is waited for: a slow client is no
// silence of upstream.
func (b *Body) arm() {
	if b.opt.Idle <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.waiting = time.Now()
	if b.idleTimer == nil {
		b.idleTimer = time.AfterFunc(b.opt.Idle, b.idle)
		return
	}
	b.idleTimer.Reset(b.opt.Idle)
}

// idle is called by the timer, perhaps late: when the wait it was set for is over, or another one has begun.
func (b *Body) idle() {
	b.mu.Lock()
	late := b.closed || b.waiting.IsZero() || time.Since(b.waiting) < b.opt.Idle
	b.idled = b.idled || !late
	b.mu.Unlock()
	switch {
	case late:
	case b.opt.Interrupt != nil:
		b.opt.Interrupt(ErrIdle)
	default:
		_ = b.upstream.Close() // it is given up; the Read that waits gets the error
	}
}
