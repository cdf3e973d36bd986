package simulate

import (
	"time"

	"github.com/llmgov/llmgov/governor"
)

// clock is the time of a process, which is the world's.
type clock struct {
	world   *world
	stopped bool // with its process
}

func (c *clock) Now() time.Time { return c.world.clock() }

func (c *clock) AfterFunc(d time.Duration, f func()) governor.Timer {
	t := &timer{clock: c, at: never, planned: never, f: f}
	t.Reset(d)
	return t
}

const never = time.Duration(-1)

// timer goes off by a task of the agenda. There is one that counts, which may be due before the timer is.
type timer struct {
	clock       *clock
	at, planned time.Duration
	f           func()
}

func (t *timer) Reset(d time.Duration) bool {
	was := t.Stop()
	t.at = t.clock.world.now + max(0, d)
	t.plan()
	return was
}

func (t *timer) Stop() bool {
	was := t.at != never
	t.at = never
	return was
}

func (t *timer) plan() {
	if t.planned == never || t.at < t.planned {
		t.planned = t.at
		t.clock.world.agenda.plan(task{at: t.at, step: ring, timer: t})
	}
}

// due is the time of a task of the timer.
func (t *timer) due(at time.Duration) {
	if t.clock.stopped || at != t.planned {
		return
	}
	t.planned = never
	switch {
	case t.at == never:
	case t.at > at:
		t.plan()
	default:
		t.at = never
		t.f()
	}
}
