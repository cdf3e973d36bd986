package governor

import (
	"context"
	"time"
)

// cause is why a wait ended.
type cause int

const (
	woken cause = iota // something changed: look again
	timedOut
	gone     // its caller went away
	draining // the governor drains
)

// waiter is a parked call. wake may be called any number of times, from anywhere, and never blocks.
type waiter struct {
	ch    chan struct{}
	fiber *fiber // set while the call is parked on a timeline
}

func newWaiter() *waiter { return &waiter{ch: make(chan struct{}, 1)} }

func (w *waiter) wake() {
	select {
	case w.ch <- struct{}{}:
	default:
	}
	if w.fiber != nil {
		w.fiber.wake()
	}
}

// park waits until w is woken, until is reached, the caller goes away, or the governor drains.
func (g *Governor) park(ctx context.Context, w *waiter, until time.Time) cause {
	if g.line != nil {
		return g.line.park(w, until)
	}
	d := until.Sub(g.clock.Now())
	if d <= 0 {
		return timedOut
	}
	timer := g.clock.AfterFunc(d, w.wake)
	defer timer.Stop()
	select {
	case <-w.ch:
		if !g.clock.Now().Before(until) {
			return timedOut
		}
		return woken
	case <-ctx.Done():
		return gone
	case <-g.drained:
		return draining
	}
}
