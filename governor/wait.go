package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// waits is until when a call may wait.
type waits struct {
	// until is the end of its tenant's MaxWait, or of its own if that is shorter.
	until time.Time
	// back is the same for a call that comes back to its place in the pool's queue when told. If its
	// tenant's MaxWait is zero, it may wait for the pool's TicketWait; else no longer than any other.
	back time.Time
	// least is for a grant that no other process has.
	least time.Time
	// keeps says that its place is kept if it is refused.
	keeps bool
	// below is how far the call's priority is below the highest.
	below int
}

// waitsOf says until when a call may wait that came at began. The MaxWait that it brings bounds all of
// it.
func (v *tenantView) waitsOf(p *poolView, req *Request, began time.Time) waits {
	bounded := func(d time.Duration) time.Time {
		if req.MaxWait != nil {
			d = min(d, *req.MaxWait)
		}
		return began.Add(d)
	}
	w := waits{until: bounded(v.cfg.MaxWait), least: bounded(req.Pause + grantWait), keeps: p.cfg.TicketWait > 0, below: v.below(req)}
	w.back = w.until
	if v.cfg.MaxWait == 0 {
		w.back = bounded(p.cfg.TicketWait)
	}
	return w
}

// below is how far the priority of a call is below the highest: the lower of its tenant's and its own.
func (v *tenantView) below(req *Request) int {
	if req.Background {
		return escrow.LowestBand
	}
	return max(v.cfg.Bands(), min(req.Below, escrow.LowestBand))
}

// cause is why a wait ended.
type cause int

const (
	woken cause = iota // something changed: look again
	timedOut
	gone     // its caller went away
	draining // the governor drains
	lostAll  // an outage of its pool began
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

// park waits until its waiter is woken, until is reached, the caller goes away, the governor drains, or an
// outage of the pool begins. The lock is given back meanwhile.
func (w *walk) park(on *waiter, until time.Time) (why cause) {
	if w.g.line != nil {
		why = w.g.line.park(on, until)
		w.now = w.g.line.now
		return why
	}
	begins := w.pool.outage.begun
	w.now = w.g.aside(func() { why = w.wait(on, until, begins) })
	return why
}

// wait is park without the lock.
func (w *walk) wait(on *waiter, until time.Time, begins <-chan struct{}) cause {
	g := w.g
	d := until.Sub(g.clock.Now())
	if d <= 0 {
		return timedOut
	}
	timer := g.clock.AfterFunc(d, on.wake)
	defer timer.Stop()
	select {
	case <-on.ch:
		if !g.clock.Now().Before(until) {
			return timedOut
		}
		return woken
	case <-w.ctx.Done():
		return gone
	case <-g.drained:
		return draining
	case <-begins:
		return lostAll
	}
}
