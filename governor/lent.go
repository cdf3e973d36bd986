package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/federation/parts"
)

// lent is what a pool knows of its part of the calls that may run at once, and of its budgets, where
// these are split over processes (Config.SharedSlots; see package federation/parts). The pool's lock
// guards it.
type lent struct {
	all    *commons
	handle SharedSlots

	inUse  bool
	lacks  bool      // a call found no slot since the last claims
	alone  bool      // nobody answers
	fenced bool      // another process has this one's name
	until  time.Time // when the part expires; zero when it has
	// part is how many calls may run here, open below how many of them background calls may
	// begin, and others how many run in other processes.
	part, open, others int64
	refused            map[escrow.NodeID]*turnedAway // by what is below the root
	longest            longest
	waiting            []*waiter // calls that lack a part of a budget
}

// hear wakes the calls that wait for a part of a budget.
func (l *lent) hear() {
	for _, w := range l.waiting {
		w.wake()
	}
	l.waiting = nil
}

// turnedAway are calls that were refused for want of a slot.
type turnedAway struct {
	at    time.Time // the last
	calls int64     // since the last claims
}

// newLent is of a pool that has not been told anything.
func newLent(p *pool, g *Governor) *lent {
	if g.commons == nil || !g.sharedSlots {
		return nil
	}
	l := &lent{all: g.commons, refused: map[escrow.NodeID]*turnedAway{}}
	l.handle = SharedSlots{g: g, p: p}
	return l
}

// lendLocked sees to it that somebody speaks for the pool's slots and budgets, if it has any.
func (p *pool) lendLocked() {
	if l := p.lent; l != nil && !l.inUse && p.lendsLocked() {
		l.inUse = true
		l.all.listPool(p)
	}
}

// lendsLocked reports whether there is anything to be split.
func (p *pool) lendsLocked() bool { return p.rules.Concurrency > 0 || len(p.shares) > 0 }

// onLoss is what the pool's configuration has for when nobody answers.
func (l *lent) onLoss() OnLoss { return l.handle.p.rules.OnLoss }

// expireLocked lets go of a part that has expired. Whoever lets calls begin asks this first.
func (p *pool) expireLocked(now time.Time) {
	if l := p.lent; l != nil && !l.until.IsZero() && !now.Before(l.until) {
		l.dropLocked()
		p.narrowLocked()
	}
}

func (l *lent) dropLocked() { l.until, l.part, l.open, l.others = time.Time{}, 0, 0, 0 }

// mayHaveLocked is how many of slots may be used here, and below how many background calls may
// begin.
func (p *pool) mayHaveLocked(slots int64) (most, open int64) {
	l := p.lent
	switch {
	case l.fenced:
		return 0, 0
	case l.alone && l.until.IsZero():
		most = min(slots, p.ownSlotsLocked())
		return most, most - min(p.rules.InteractiveReserve, most/2)
	}
	most = min(slots, l.part)
	if p.limiter != nil {
		return most, most - min(p.rules.InteractiveReserve, most/2)
	}
	return most, min(most, l.open)
}

// ownSlotsLocked is how many slots the pool allows itself when nobody answers.
func (p *pool) ownSlotsLocked() int64 {
	return p.rules.ownPart(p.rules.Concurrency, max(p.nodes, p.rules.ExpectNodes))
}

// slotsLostLocked reports whether nobody says how many slots may be used.
func (p *pool) slotsLostLocked() bool {
	return p.lent != nil && p.rules.Concurrency > 0 && p.lent.until.IsZero()
}

// slotsComingLocked reports whether a call lacks nothing but a part, which nobody has, as far
// as that is known.
func (p *pool) slotsComingLocked(background bool) bool {
	l := p.lent
	if l == nil || l.alone || l.fenced || p.escrow.HasSlot(background) {
		return false
	}
	limit, used := p.slotsLocked()
	if background {
		limit -= p.rules.InteractiveReserve
	}
	return used+int64(p.escrow.Waiting()) < limit
}

// slotsLocked is how many calls may run at once, in all processes, and how many do.
func (p *pool) slotsLocked() (limit, used int64) {
	limit = p.rules.Concurrency
	if p.limiter != nil {
		limit = p.limiter.Limit()
	}
	used = p.escrow.InFlight()
	if p.lent != nil && p.limiter == nil {
		used += p.lent.others
	}
	return limit, used
}

// lackSlotLocked says that a call of a leaf has found no slot.
func (p *pool) lackSlotLocked(now time.Time, leaf escrow.NodeID, queued bool) {
	l := p.lent
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
	if !l.lacks && p.escrow.InFlight() < p.mostSlotsLocked() { // else it has all there are
		l.lacks = true
		l.all.listPool(p)
	}
}

// longest is how long the longest call ran of those that ended in the last minute or two, and how many
// these were.
type longest struct {
	now, before ended
	since       time.Time
}

type ended struct {
	most  time.Duration
	calls int
}

func (l *longest) note(now time.Time, ran time.Duration) {
	if now.Sub(l.since) >= parts.Window {
		if l.before = l.now; now.Sub(l.since) >= 2*parts.Window {
			l.before = ended{}
		}
		l.now, l.since = ended{}, now
	}
	l.now = ended{max(l.now.most, ran), l.now.calls + 1}
}

// enough is of how many calls the longest is taken to be that there are.
const enough = 32

// tail is for how long calls may run on of which the oldest has run so long: a quarter longer than any
// has of late. It is a Window at most, and where too few have ended.
func (l *longest) tail(now time.Time, oldest time.Duration) time.Duration {
	if l.now.calls+l.before.calls < enough || now.Sub(l.since) >= 2*parts.Window {
		return parts.Window
	}
	most := max(l.now.most, l.before.most, oldest)
	return min(most+most/4, parts.Window)
}

// oldestLocked is for how long the call that runs longest has.
func (p *pool) oldestLocked(now time.Time) (age time.Duration) {
	for i := range p.leases {
		if st := &p.leases[i]; st.tenant != nil && st.waiter == nil {
			age = max(age, now.Sub(st.since))
		}
	}
	return age
}
