package plan

import (
	"time"

	"github.com/llmgov/llmgov/governor"
)

// clock is the time of a replay: it stands still until it is set. A recorded governor
// has one alarm at a time.
type clock struct {
	origin time.Time
	now    time.Time
	alarm  *alarm
}

func (c *clock) Now() time.Time { return c.now }

func (c *clock) AfterFunc(d time.Duration, f func()) governor.Timer {
	c.alarm = &alarm{clock: c, f: f}
	c.alarm.Reset(d)
	return c.alarm
}

// alarm is a timer that whoever moves the clock lets go off.
type alarm struct {
	clock *clock
	at    time.Time
	set   bool
	f     func()
}

func (a *alarm) Reset(d time.Duration) bool {
	was := a.set
	a.at = a.clock.now.Add(d)
	a.set = true
	return was
}

func (a *alarm) Stop() bool {
	was := a.set
	a.set = false
	return was
}

// ringBefore lets the alarm go off, if it is to by then, and reports whether it did.
func (c *clock) ringBefore(end int64) bool {
	a := c.alarm
	if a == nil || !a.set || int64(a.at.Sub(c.origin)) > end {
		return false
	}
	c.now = a.at
	a.set = false
	a.f()
	return true
}

func (c *clock) moveTo(at int64) {
	if t := c.origin.Add(time.Duration(at)); t.After(c.now) {
		c.now = t
	}
}
