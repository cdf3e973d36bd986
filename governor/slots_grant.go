package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// poolGrants are the grants of a pool of slots and budgets that are divided over
// processes (Config.SharedSlots). The pool's lock guards it.
type poolGrants struct {
	all    *notices
	handle SharedSlots

	inUse  bool      // somebody speaks for them
	lacks  bool      // a call found no slot, or too small a grant of a budget, since the last Claim
	alone  bool      // nobody answers
	fenced bool      // another process has taken this one's name
	until  time.Time // when the grants expire; zero when they have
	SlotsGrant
	refused map[escrow.NodeID]*turnedAway // by the top-level node they belong to
	longest longest
	waiting []*waiter // calls that wait for a grant of a budget
}

// hear wakes the calls that wait for a grant of a budget.
func (l *poolGrants) hear() {
	for _, w := range l.waiting {
		w.wake()
	}
	l.waiting = nil
}

// turnedAway are calls that were refused for want of a slot.
type turnedAway struct {
	at    time.Time // of the last one
	calls int64     // since the last claims
}

// newPoolGrants returns the state of a pool that has not been told anything; nil where nothing is
// divided.
func newPoolGrants(p *pool, g *Governor) *poolGrants {
	if g.notices == nil || !g.sharedSlots {
		return nil
	}
	l := &poolGrants{all: g.notices, refused: map[escrow.NodeID]*turnedAway{}}
	l.handle = SharedSlots{g: g, p: p}
	return l
}

// announceLocked lists the pool so that somebody speaks for its slots and budgets, unless somebody
// does already or it has none.
func (p *pool) announceLocked() {
	if l := p.grants; l != nil && !l.inUse && p.dividedLocked() {
		l.inUse = true
		l.all.listPool(p)
	}
}

// dividedLocked reports whether the pool has slots or budgets to divide.
func (p *pool) dividedLocked() bool { return p.rules.Concurrency > 0 || len(p.shares) > 0 }

// onLoss is the rule of the pool for the time when nobody answers.
func (l *poolGrants) onLoss() OnLoss { return l.handle.p.rules.OnLoss }

// expireLocked gives up grants that have expired. Call it before calls may be dispatched.
func (p *pool) expireLocked(now time.Time) {
	if l := p.grants; l != nil && !l.until.IsZero() && !now.Before(l.until) {
		l.dropLocked()
		p.narrowLocked()
	}
}

func (l *poolGrants) dropLocked() {
	l.until = time.Time{}
	l.SlotsGrant = SlotsGrant{}
}

// usableSlotsLocked is how many of the given slots may be used here, and how many of these by background calls.
func (p *pool) usableSlotsLocked(slots int64) (most int64, forBackground escrow.BackgroundSlots) {
	l := p.grants
	switch {
	case l.fenced:
		return 0, escrow.BackgroundSlots{}
	case l.alone && l.until.IsZero():
		most = min(slots, p.ownSlotsLocked())
	default:
		most = min(slots, l.Slots)
		if p.limiter == nil {
			return most, escrow.BackgroundSlots{Most: min(most, l.Open)}
		}
	}
	return most, p.forBackground(most)
}

// ownSlotsLocked is how many slots the pool allows itself when nobody answers.
func (p *pool) ownSlotsLocked() int64 {
	return p.rules.ownPart(p.slotLimitLocked(), max(p.rates.nodes, p.rules.ExpectNodes))
}

// slotsLostLocked reports whether the pool's slots are divided and none are granted to it now.
func (p *pool) slotsLostLocked() bool {
	return p.grants != nil && p.rules.Concurrency > 0 && p.grants.until.IsZero()
}

// slotsComingLocked reports whether a call lacks nothing but a grant that no process has, as far as
// is known.
func (p *pool) slotsComingLocked(call *escrow.Call) bool {
	l := p.grants
	if l == nil || l.alone || l.fenced || p.escrow.HasSlot(call.Leaf, call.Background) {
		return false
	}
	if (p.escrow.Capped(call.Leaf) || p.escrow.HeldBack(call.Leaf)) && !p.roomComingLocked(call.Leaf) {
		return false
	}
	limit, used := p.slotsLocked()
	coming := used+p.escrow.WaitingBefore(call.Leaf) < limit
	if call.Background {
		_, later := p.escrow.Queued()
		limit, used = p.backgroundSlotsLocked()
		coming = coming && used+int64(later) < limit
	}
	return coming
}

// slotsLocked is how many calls may run at once in all processes, and how many do.
func (p *pool) slotsLocked() (limit, used int64) {
	limit = p.slotLimitLocked()
	used = p.escrow.InFlight()
	if p.grants != nil {
		used += p.grants.Others
	}
	return limit, used
}

// backgroundSlotsLocked is how many background calls may run at once in all processes, and how many do.
func (p *pool) backgroundSlotsLocked() (limit, used int64) {
	slots, _ := p.slotsLocked()
	used = p.escrow.InBackground()
	if p.grants != nil && p.limiter == nil {
		used += p.grants.OthersBackground
	}
	return p.forBackground(slots).Most, used
}

// lackSlotLocked notes that a call of a leaf found no slot, and lists the pool so that the store is
// asked for more at once. queued says that the call waits; else it was refused.
func (p *pool) lackSlotLocked(now time.Time, leaf escrow.NodeID, queued bool) {
	l := p.grants
	if l == nil {
		return
	}
	if !queued {
		top := p.escrow.Top(leaf)
		if l.refused[top] == nil {
			l.refused[top] = &turnedAway{}
		}
		l.refused[top].at = now
		l.refused[top].calls++
	}
	if !l.lacks && p.escrow.InFlight() < p.mostSlotsLocked() { // otherwise this process has all slots
		l.lacks = true
		l.all.listPool(p)
	}
}

// longest is how long the longest call ran, of those that ended within the last one to two minutes,
// and how many these were.
type longest struct {
	now, before ended
	since       time.Time
}

// ended is the same for the calls of one minute.
type ended struct {
	most  time.Duration
	calls int
}

// note takes in that a call has ended.
func (l *longest) note(now time.Time, ran time.Duration) {
	if now.Sub(l.since) >= escrow.Window {
		l.before = l.now
		if now.Sub(l.since) >= 2*escrow.Window {
			l.before = ended{}
		}
		l.now = ended{}
		l.since = now
	}
	l.now = ended{max(l.now.most, ran), l.now.calls + 1}
}

// enough is how many calls have to have ended for the longest to be taken as a measure.
const enough = 32

// tail is how long calls here may go on running if this process is heard of no more, given how long
// the oldest has run already: a quarter longer than any has of late, but at most a Window. Where
// too few have ended to know, it is a Window of package escrow.
func (l *longest) tail(now time.Time, oldest time.Duration) time.Duration {
	if l.now.calls+l.before.calls < enough || now.Sub(l.since) >= 2*escrow.Window {
		return escrow.Window
	}
	most := max(l.now.most, l.before.most, oldest)
	return min(most+most/4, escrow.Window)
}

// oldestLocked is how long the oldest running call has run.
func (p *pool) oldestLocked(now time.Time) (age time.Duration) {
	for i := range p.leases {
		if st := &p.leases[i]; st.tenant != nil && st.waiter == nil {
			age = max(age, now.Sub(st.since))
		}
	}
	return age
}
