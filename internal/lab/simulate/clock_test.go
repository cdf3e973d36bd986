package simulate

import (
	"slices"
	"testing"
	"time"
)

// TestTimer: a timer goes off once, when it was last told to, whether that became sooner or later; one that was stopped, or whose process has, does not.
func TestTimer(t *testing.T) {
	w := &world{}
	c := &clock{world: w}
	var fired []time.Duration
	timer := func(d time.Duration) *timer {
		return c.AfterFunc(d, func() { fired = append(fired, w.now) }).(*timer)
	}
	timer(5 * time.Second).Reset(2 * time.Second)
	timer(time.Second).Reset(3 * time.Second)
	timer(time.Second).Stop()
	again := timer(4 * time.Second)
	again.Stop()
	again.Reset(6 * time.Second)
	timer(8 * time.Second)
	for next, ok := w.agenda.next(); ok; next, ok = w.agenda.next() {
		w.now = next.at
		c.stopped = w.now > 7*time.Second
		w.do(next)
	}
	if want := []time.Duration{2 * time.Second, 3 * time.Second, 6 * time.Second}; !slices.Equal(fired, want) {
		t.Errorf("they went off at %v, want %v", fired, want)
	}
}
