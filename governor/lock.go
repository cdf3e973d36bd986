package governor

import (
	"runtime"
	"time"
)

// One lock guards all that is decided by. Whatever the package exports takes it once, does everything under it, and gives it back; what
// is below takes it for granted. To wait, to write and to call what is not of this package, it is given back.

// lock takes the lock, begins an instant, and returns its time.
func (g *Governor) lock() time.Time {
	g.mu.Lock()
	return g.line.begin()
}

// look is lock for those who change nothing that is decided by.
func (g *Governor) look() time.Time {
	g.mu.Lock()
	return g.line.catchUp()
}

// unlock gives the lock back, and delivers the events that were queued under it. What follows in the instant happens first. Deferred,
// it keeps the lock in a panic, as those do that do not defer it: nobody goes on by books that may be written by half.
func (g *Governor) unlock() {
	if cause := recover(); cause != nil {
		panic(cause)
	}
	g.line.follow()
	g.line.arm()
	queued := g.events.fresh
	g.events.fresh = false
	g.mu.Unlock()
	if queued {
		g.events.deliver()
	}
}

// aside gives the lock back while something is done, which is to write or to take long; where calls are recorded it is done within the
// instant. It returns the time at which the lock is held again, at which all may be different.
func (g *Governor) aside(do func()) (now time.Time) {
	if g.recorded {
		do()
		return g.line.now
	}
	g.unlock()
	defer func() { now = g.lock() }()
	do()
	return now
}

// stride is how much of something long is done in one hold of the lock.
const stride = 64

// breathe lets others have the lock after each stride, if i counts what is done. It returns the time: now, if it did not.
func (g *Governor) breathe(i int, now time.Time) time.Time {
	if i%stride == stride-1 {
		return g.aside(runtime.Gosched)
	}
	return now
}

// blink is breathe under look. It ends the look and begins another, because nothing is decided by what is seen.
func (g *Governor) blink(i int, now time.Time) time.Time {
	if i%stride != stride-1 {
		return now
	}
	g.unlock()
	runtime.Gosched()
	return g.look()
}

// after has something done under the lock when d has passed.
func (g *Governor) after(d time.Duration, do func(now time.Time)) Timer {
	return g.line.AfterFunc(d, func() { do(g.line.now) })
}
