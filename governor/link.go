package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
)

// At own limits a call is held, waits in line, or is refused.

// link is one set of limits that holds for a call, and how the call comes to it: as its tenant's own,
// or through one of the tenant's teams.
type link struct {
	own *ownLimits
	via limits.Via
}

// inLine is a call that waits for own limits.
type inLine struct {
	waiter
	place limits.Place
	least time.Time // it may wait until then in any case
	call  limits.Call
}

func newInLine() *inLine {
	w := &inLine{}
	w.place.Caller = &w.waiter
	return w
}

// join holds a call's cost, in hold, if it fits. If not, it returns a place in the line, in which the call is
// to wait, or a refusal. A shadow is always held, and the refusal only returned. If the call lacks
// only a grant it may wait until may.least, whatever its MaxWait is.
func (k *link) join(now time.Time, b *holds, may waits, claim escrow.Claim, hold *limits.Hold) (*inLine, *Refusal) {
	o := k.own
	o.advance(now)
	o.announce()
	call := limits.Call{
		Cost: b.cost, Via: k.via, Below: may.below, MaxWait: may.until.Sub(now), Claim: claim, Keeps: may.keeps && !b.shadow, Back: may.back.Sub(now),
	}
	ans := o.set.Offer(call, hold)
	if ans.Verdict == limits.Admitted {
		return nil, nil
	}
	var rej *Refusal
	if ans.Verdict == limits.Refused {
		rej = o.refuse(now, k, &call, &ans)
	}
	o.askForMore(ans.Cost)
	switch {
	case b.shadow:
		*hold = o.set.Book(ans.Cost)
		return nil, rej
	case rej != nil:
		return nil, rej
	}
	w := newInLine()
	w.call = call
	if ans.Coming {
		w.least = may.least
	}
	if ans.Back {
		w.least = later(w.least, may.back)
	}
	o.set.Join(&w.place, call)
	return w, nil
}

// take books the call of w if it is first in line and fits, and if it may go.
func (o *ownLimits) take(w *inLine, mayGo bool) (limits.Hold, bool) {
	if !mayGo {
		return limits.Hold{}, false
	}
	h, ok := o.set.Take(&w.place)
	if ok {
		o.wake()
	}
	return h, ok
}

// giveUp takes the call of w out of the line, and returns why it did not go.
func (o *ownLimits) giveUp(now time.Time, k *link, w *inLine, gone bool) *Refusal {
	o.set.Quit(&w.place, false)
	o.wake()
	ans := limits.Answer{Cost: w.place.Cost(), Lack: o.set.LackAt(&w.place)}
	o.askForMore(ans.Cost)
	w.call.Keeps = w.call.Keeps && !gone
	return o.refuse(now, k, &w.call, &ans)
}

// refuse refuses a call, and keeps its place.
func (o *ownLimits) refuse(now time.Time, k *link, call *limits.Call, ans *limits.Answer) *Refusal {
	o.set.Keep(*call, ans)
	return keeps(o.refuseLack(now, ans.Cost, ans.Lack, k.via), ans.Kept)
}

// quit takes w out of the line; served says that its call goes.
func (o *ownLimits) quit(w *inLine, served bool) {
	o.set.Quit(&w.place, served)
	o.wake()
}
