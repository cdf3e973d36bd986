package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/refusal"
)

// A call that the store refused, although as far as is known here there was room, asks again
// after askAgain, and after twice as long each further time, up to askSeldom.
const (
	askAgain  = 50 * time.Millisecond
	askSeldom = time.Second
)

// storeCall is a call that the store has to let in, on its way through its limits. See enterAsking.
type storeCall struct {
	spend    Spend
	deadline time.Time // until when it may wait for room in a limit

	in    *link // the link in whose line it stands, or nil
	place *inLine
	next  time.Time     // when it asks again even if nothing has changed
	again time.Time     // before that it does not ask again
	pause time.Duration // between two questions; doubles each time
	why   *Refusal      // reason for waiting, as a refusal
	room  time.Time     // when there will be room, according to why
}

// enterAsking is enter for pools whose calls ask the store: one question covers all of
// a call's limits and budgets. A call that does not fit waits in the line of one limit that it
// lacks, and holds nothing meanwhile. The first in a line asks again when there should be room by
// the store's answer, or sooner if there is as far as is known here. Those behind it for whom there
// is room as well ask at the same time.
func (w *walk) enterAsking(s Spend) *Refusal {
	e := storeCall{spend: s, deadline: w.may.until, pause: askAgain}
	most := later(e.deadline, w.now.Add(grantWait))
	for {
		lack := e.ahead(w)
		if lack.rej == nil {
			c := w.consult(s, most)
			w.pool.noteAnswered(w.now, c)
			switch c.state {
			case letIn:
				e.quit(true)
				return nil
			case lost:
				e.quit(false)
				return e.alone(w)
			case left:
				return e.end(w, gone)
			}
			lack = c.refusal(w.now)
			e.pause = min(2*e.pause, askSeldom)
			e.again = w.now.Add(e.pause)
		}
		if w.holds.shadow {
			e.force(w, e.cannotWait(w, lack))
			return nil
		}
		rej := e.stand(w, lack)
		if rej != nil {
			e.quit(false)
			return rej
		}
		why := e.await(w)
		if why != woken {
			return e.end(w, why)
		}
	}
}

// lacking is why a call does not go: the link that lacks room, the refusal, and how long until there is
// room; 0 if that is unknown.
type lacking struct {
	link *link
	rej  *Refusal
	wait time.Duration
}

// ahead says why a call need not ask: others wait in line before it for one of its limits, or,
// under cached_deny, a limit is known to have no room.
func (e *storeCall) ahead(w *walk) lacking {
	for i := range w.holds.chain {
		k := &w.holds.chain[i]
		rej, wait := e.aheadAt(w, k)
		if rej != nil {
			return lacking{k, rej, wait}
		}
	}
	return lacking{}
}

// aheadAt is ahead for one link.
func (e *storeCall) aheadAt(w *walk, k *link) (*Refusal, time.Duration) {
	o := k.own
	o.advance(w.now)
	c := o.set.Clip(w.holds.cost)
	if k != e.in {
		lack, behind := o.set.Behind(limits.Call{Cost: w.holds.cost, Via: k.via, Below: w.may.below})
		if behind {
			wait := max(lack.Wait, o.set.WaitOn(lack.Axis, c), askAgain)
			return o.refuseLimit(lack.Axis, c, wait), lack.Wait
		}
	}
	if w.pool.cfg.TenantLimits == LimitsCachedDeny && e.place == nil {
		return o.remembers(w.now, c, e.spend)
	}
	return nil, 0
}

// cannotWait returns the refusal if a call cannot wait for room: it may not wait that long, or the
// line is full. It is nil if the call may wait.
func (e *storeCall) cannotWait(w *walk, l lacking) *Refusal {
	left := e.deadline.Sub(w.now)
	switch {
	case left <= 0 || l.rej.Budget.Limit > 0:
		return l.rej
	case l.rej.Axis != refusal.AxisConcurrency && l.wait > left: // for slots, wait is only a guess
		return l.rej
	case e.in == l.link:
		return nil
	}
	full := limits.Lack{}
	l.link.own.set.FillLine(&full, l.link.via)
	return byLine(l.rej, full, l.link.via)
}

// stand puts a call into the line of the limit that it lacks, or keeps it there. It returns a
// refusal if the call cannot wait.
func (e *storeCall) stand(w *walk, l lacking) *Refusal {
	k := l.link
	if e.in != k {
		e.quit(false)
	}
	o := k.own
	if why := e.cannotWait(w, l); why != nil {
		return why
	}
	e.next = w.now.Add(max(l.wait, askAgain))
	if l.rej.Axis == refusal.AxisConcurrency {
		e.next = w.now.Add(e.pause)
	}
	e.why = l.rej
	e.room = w.now.Add(l.rej.RetryAfter)
	if e.in == k {
		o.set.Asking(&e.place.place, false)
		return nil
	}
	e.in = k
	e.place = newInLine()
	o.set.JoinAsking(&e.place.place, limits.Call{Cost: w.holds.cost, Via: k.via, Below: w.may.below})
	return nil
}

// await waits until it is the call's turn to ask.
func (e *storeCall) await(w *walk) cause {
	o := e.in.own
	w.now = w.g.clock.Now()
	for {
		until := e.deadline
		asks := true
		o.advance(w.now)
		turn, first := o.set.MayAsk(&e.place.place)
		room := w.hasRoom()
		switch {
		case turn && room:
			until = e.again
		case first:
			until = e.next
		default:
			asks = false
		}
		if asks && !w.now.Before(until) {
			e.begin()
			return woken
		}
		if !w.now.Before(e.deadline) {
			return timedOut
		}
		why := w.park(&e.place.waiter, earlier(until, e.deadline))
		if why == gone || why == draining || why == lostAll {
			return why
		}
	}
}

// begin marks the call as asking, and wakes the next in line, for whom there may be room too.
func (e *storeCall) begin() {
	o := e.in.own
	o.set.Asking(&e.place.place, true)
	o.wake()
}

// hasRoom reports whether all limits have room for the call, as far as is known here.
func (w *walk) hasRoom() bool {
	for i := range w.holds.chain {
		if !w.holds.chain[i].own.hasRoom(w.now, w.holds.cost) {
			return false
		}
	}
	return true
}

func (o *ownLimits) hasRoom(now time.Time, c limits.Cost) bool {
	o.advance(now)
	return o.set.HasRoom(o.set.Clip(c))
}

// end ends a call's wait without success, and returns the refusal: by its reason for waiting, or
// because the caller went or the governor drains.
func (e *storeCall) end(w *walk, why cause) *Refusal {
	e.quit(false)
	rej := e.why
	switch {
	case rej == nil: // it waited for the store's answer
		rej = refuseUnanswered(w.holds.chain[0].own.owner)
	case rej.Axis != refusal.AxisConcurrency: // for slots the guess is as good as before
		retryIn(rej, max(e.room.Sub(w.now), askAgain))
	}
	if why == gone && w.g.Draining() {
		why = draining
	}
	because(rej, why)
	return rej
}

// quit takes the call out of the line in which it stands, if any. served says that it goes.
func (e *storeCall) quit(served bool) {
	if e.in == nil {
		return
	}
	e.in.own.quit(e.place, served)
	e.in = nil
	e.place = nil
}

// force books the call of a shadow. rej is why it would have been refused, or nil.
func (e *storeCall) force(w *walk, rej *Refusal) {
	if rej != nil {
		w.holds.note(rej)
	}
	w.holds.let(w.now, e.spend, w.holds.expected)
}

// expected is the expected cost of the call in a budget, in the units of its books.
func (b *holds) expected(a *account) int64 { return min(a.units(b.spend[a.Unit]), a.limit()) }

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
