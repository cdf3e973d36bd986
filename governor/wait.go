package governor

import (
	"cmp"
	"maps"
	"slices"
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
	woken    cause = iota // something changed: look again
	timedOut              // its time has come: to look again, or the end of its pause or of its wait
	gone                  // its caller went away
	draining              // the governor drains
	lostAll               // an outage of its pool began
	unplaced              // a reload took its place in the pool away
)

// ends reports whether the call cannot go, even if its turn has come.
func (why cause) ends() bool { return why != woken && why != timedOut }

// waiter is where a call waits for something. wake may be called any number of times.
type waiter struct {
	woken bool
	by    *parked // who waits; nil for now
}

func (w *waiter) wake() {
	w.woken = true
	if w.by != nil {
		w.by.wake()
	}
}

// look is why the call's wait is over, if it is.
func (c *call) look() (why cause, over bool) {
	woke := c.on.woken
	c.on.woken = false
	switch {
	case c.gone:
		return gone, true
	case c.g.Draining():
		return draining, true
	case !c.g.line.now.Before(c.until):
		return timedOut, true
	case c.pool.outage.on && c.stage != listening:
		return lostAll, true
	case c.mustLeave():
		return unplaced, true
	}
	return woken, woke
}

// mustLeave reports whether the call waits for what comes before its pool's queue, and has no place there any more. Who waits in the
// queue is served, and who listens to the store hears it first.
func (c *call) mustLeave() bool {
	switch c.stage {
	case pausing, inALine, denied, lackingGrant:
		return c.unplaced()
	}
	return false
}

// unplaced reports whether a reload since the call last looked took its tenant or pool away, or its tenant is Barred there.
func (c *call) unplaced() bool { return c.tenant.table != c.g.table && !c.g.table.serves(&c.req) }

// parked is a call that waits.
type parked struct {
	call
	timer   entry                 // until when
	ready   bool                  // woken, and waiting for its turn to go on
	ended   bool                  // it is decided
	done    func(Lease, *Refusal) // is told within the instant; nil if somebody waits for decided
	decided chan struct{}
}

// park has a call wait. It goes on when it is woken.
func (g *Governor) park(c call) *parked {
	p := &parked{call: c, decided: make(chan struct{})}
	p.timer = entry{line: g.line, f: p.wake, place: -1}
	p.wait()
	return p
}

func (p *parked) wait() {
	p.on.by = p
	p.timer.Reset(p.until.Sub(p.g.line.now))
	p.g.line.parked[p] = struct{}{}
}

// concludes reports whether the call is concluded within the instant in which it is decided, and not by whoever waits for it.
func (p *parked) concludes() bool { return p.g.recorded || p.done != nil }

// wake lets the call go on when its turn comes.
func (p *parked) wake() {
	if !p.ready && !p.ended {
		p.ready = true
		p.g.line.ready = append(p.g.line.ready, p)
	}
}

// resume takes the call on.
func (p *parked) resume() {
	p.ready = false
	p.timer.Stop()
	p.on.by = nil
	delete(p.g.line.parked, p)
	p.now = p.g.line.now
	why, over := p.look()
	if !over || !p.goOn(why) {
		p.wait()
		return
	}
	p.ended = true
	if p.concludes() {
		p.conclude()
	}
	if p.done != nil {
		p.done(p.lease, p.rej)
	}
	close(p.decided)
}

// wake has all calls go on that wait and are some, as they came.
func (t *timeline) wake(some func(*call) bool) {
	list := slices.Collect(maps.Keys(t.parked))
	list = slices.DeleteFunc(list, func(p *parked) bool { return !some(&p.call) })
	slices.SortFunc(list, func(a, b *parked) int { return cmp.Compare(a.number, b.number) })
	for _, p := range list {
		p.wake()
	}
}
