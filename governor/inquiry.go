package governor

import (
	"context"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
)

// A call that the store refused, although by what is known here there was room, asks again
// after askAgain, and after twice as long each further time, up to askSeldom.
const (
	askAgain  = 50 * time.Millisecond
	askSeldom = time.Second
)

// inquiry is a call that the store has to let in, on its way through its limits. See enterAsking.
type inquiry struct {
	g        *Governor
	pool     *poolView
	tab      *tab
	spend    Spend
	deadline time.Time // until when it may wait for room in a limit

	in    *link // the link in whose line it stands, or nil
	w     *inLine
	next  time.Time     // when it asks again even if nothing has changed
	again time.Time     // before that it does not ask again
	pause time.Duration // between two questions; doubles each time
	why   *Rejection    // what it waits for, as a refusal
	room  time.Time     // when there will be room, according to why
}

// enterAsking does what enter does, for pools whose calls ask the store: one question covers all of
// a call's limits and budgets. A call that does not fit waits in the line of one limit that it
// lacks, and holds nothing meanwhile. The first in a line asks again when there should be room by
// the store's answer, or sooner if there is by what is known here. Those behind it for whom there
// is room as well ask at the same time.
//
// It returns the time at which all was booked.
func (g *Governor) enterAsking(ctx context.Context, p *poolView, b *tab, now time.Time, maxWait time.Duration, s Spend) (time.Time, *Rejection) {
	e := &inquiry{g: g, pool: p, tab: b, spend: s, deadline: now.Add(maxWait), pause: askAgain}
	most := later(e.deadline, now.Add(grantWait))
	for {
		k, rej, wait := e.ahead(now)
		if rej == nil {
			c := g.consult(ctx, b, s, most)
			now = g.clock.Now()
			g.noteAnswered(p, now, c)
			switch c.outcome() {
			case letIn:
				e.leave(true)
				return now, nil
			case lost:
				e.leave(false)
				return now, e.alone(now)
			case left:
				return now, e.end(now, gone)
			}
			k, rej, wait = c.refusal(now)
			e.pause = min(2*e.pause, askSeldom)
			e.again = now.Add(e.pause)
		}
		if b.shadow {
			k.own.mu.Lock()
			rej = e.cannotWaitLocked(now, k, rej, wait)
			k.own.mu.Unlock()
			e.force(now, rej)
			return now, nil
		}
		rej = e.stand(now, k, rej, wait)
		if rej != nil {
			e.leave(false)
			return now, rej
		}
		why := woken
		now, why = e.await(ctx)
		if why != woken {
			return now, e.end(now, why)
		}
	}
}

// ahead says why a call need not ask: others wait in line before it for one of its limits, or,
// under cached_deny, a limit is known to have no room. It returns the link it lacks, the refusal,
// and how long until there is room.
func (e *inquiry) ahead(now time.Time) (*link, *Rejection, time.Duration) {
	for i := range e.tab.chain {
		k := &e.tab.chain[i]
		if rej, wait := e.aheadAt(now, k); rej != nil {
			return k, rej, wait
		}
	}
	return nil, nil, 0
}

// aheadAt is ahead for one link.
func (e *inquiry) aheadAt(now time.Time, k *link) (*Rejection, time.Duration) {
	o := k.own
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advanceLocked(now)
	c := o.set.Clip(e.tab.cost)
	if k != e.in {
		lack, behind := o.set.Behind(limits.Call{Cost: e.tab.cost, Via: k.via})
		if behind {
			wait := max(lack.Wait, o.set.WaitOn(lack.Axis, c), askAgain)
			return o.rejectLimitLocked(lack.Axis, c, wait), lack.Wait
		}
	}
	if e.pool.cfg.TenantLimits == LimitsCachedDeny && e.w == nil {
		return o.remembersLocked(now, c, e.spend)
	}
	return nil, 0
}

// cannotWaitLocked returns the refusal if a call cannot wait for room in k: it may not wait that
// long, or the line is full. It is nil if the call may wait.
func (e *inquiry) cannotWaitLocked(now time.Time, k *link, rej *Rejection, wait time.Duration) *Rejection {
	switch left := e.deadline.Sub(now); {
	case left <= 0 || rej.Budget.Limit > 0:
		return rej
	case rej.Axis != axisConcurrency && wait > left: // for slots, wait is only a guess
		return rej
	case e.in == k:
		return nil
	}
	lack := limits.Lack{}
	k.own.set.FillLine(&lack, k.via)
	return rej.byLine(lack, k.via)
}

// stand puts a call into the line of the limit that it lacks, or keeps it there. It returns a
// refusal if the call cannot wait.
func (e *inquiry) stand(now time.Time, k *link, rej *Rejection, wait time.Duration) *Rejection {
	if e.in != k {
		e.leave(false)
	}
	o := k.own
	o.mu.Lock()
	defer o.mu.Unlock()
	if why := e.cannotWaitLocked(now, k, rej, wait); why != nil {
		return why
	}
	e.next = now.Add(max(wait, askAgain))
	if rej.Axis == axisConcurrency {
		e.next = now.Add(e.pause)
	}
	e.why = rej
	e.room = now.Add(rej.RetryAfter)
	if e.in == k {
		o.set.Asking(&e.w.place, false)
		return nil
	}
	e.in = k
	e.w = newInLine()
	o.set.JoinAsking(&e.w.place, limits.Call{Cost: e.tab.cost, Via: k.via})
	return nil
}

// await waits until it is the call's turn to ask.
func (e *inquiry) await(ctx context.Context) (time.Time, cause) {
	o := e.in.own
	for {
		now := e.g.clock.Now()
		until := e.deadline
		asks := true
		o.mu.Lock()
		o.advanceLocked(now)
		turn, first := o.set.MayAsk(&e.w.place)
		o.mu.Unlock()
		switch fits := e.fits(now); {
		case turn && fits:
			until = e.again
		case first:
			until = e.next
		default:
			asks = false
		}
		if asks && !now.Before(until) {
			e.begin()
			return now, woken
		}
		if !now.Before(e.deadline) {
			return now, timedOut
		}
		if why := e.g.park(ctx, &e.w.waiter, earlier(until, e.deadline)); why == gone || why == draining {
			return e.g.clock.Now(), why
		}
	}
}

// begin marks the call as asking, and wakes the next in line, for whom there may be room too.
func (e *inquiry) begin() {
	o := e.in.own
	o.mu.Lock()
	defer o.mu.Unlock()
	o.set.Asking(&e.w.place, true)
	o.wakeLocked()
}

// fits reports whether all limits have room for the call, by what is known here.
func (e *inquiry) fits(now time.Time) bool {
	for i := range e.tab.chain {
		if !e.fitsIn(now, e.tab.chain[i].own) {
			return false
		}
	}
	return true
}

func (e *inquiry) fitsIn(now time.Time, o *ownLimits) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advanceLocked(now)
	return o.set.HasRoom(o.set.Clip(e.tab.cost))
}

// end ends a call's wait without success, and returns the refusal: by what it waited for, or
// because the caller went or the governor drains.
func (e *inquiry) end(now time.Time, why cause) *Rejection {
	e.leave(false)
	rej := e.why
	switch {
	case rej == nil: // it waited for the store's answer
		rej = rejectUnanswered(e.tab.chain[0].own.owner)
	case rej.Axis != axisConcurrency: // for slots the guess is as good as before
		rej.retryIn(max(e.room.Sub(now), askAgain))
	}
	if why == gone && e.g.Draining() {
		why = draining
	}
	rej.because(why)
	return rej
}

// leave takes the call out of the line in which it stands, if any. served says that it goes.
func (e *inquiry) leave(served bool) {
	if e.in == nil {
		return
	}
	e.in.own.quit(e.w, served)
	e.in = nil
	e.w = nil
}

// force books the call of a shadow. rej is why it would have been refused, or nil.
func (e *inquiry) force(now time.Time, rej *Rejection) {
	if rej != nil {
		e.tab.note(rej)
	}
	e.tab.let(now, e.spend, e.tab.expected)
}

// expected is what the call will probably take of a budget, in the units of its books.
func (b *tab) expected(a *account) int64 { return min(a.units(b.spend[a.Unit]), a.limit()) }

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
