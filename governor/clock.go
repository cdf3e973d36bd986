package governor

import "time"

// Clock is the one source of time of a Governor. Tests and simulations pass
// their own; SystemClock is the default, and is virtual inside a
// testing/synctest bubble.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f once, in its own goroutine, when d has passed.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is what Clock.AfterFunc returns; *time.Timer is one.
type Timer interface {
	Reset(d time.Duration) bool
	Stop() bool
}

// SystemClock is the machine's clock.
type SystemClock struct{}

// Now is time.Now.
func (SystemClock) Now() time.Time { return time.Now() }

// AfterFunc is time.AfterFunc.
func (SystemClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
