package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/governor/record"
)

// Usage by earlier processes (Config.Past) of what is shared with other processes. The store counts it, as that of processes that
// are no more. A store that has lost its data is told of it by this process, as its own.

// announcePast has somebody speak for the limits of which earlier processes used something, also if no calls come.
func (tb *table) announcePast(now time.Time, past *record.Past) {
	for _, who := range past.Uses.Owners() { // limits are numbered as they are made
		for v := tb.known(now, who.Tenant); v != nil; v = v.parent {
			v.own(now, "")
		}
	}
	for v := range tb.each {
		for _, o := range v.made() {
			o.announcePast(now)
		}
	}
}

func (o *ownLimits) announcePast(now time.Time) {
	if o.recalls(now) {
		o.announce()
	}
}

// Recalls reports whether earlier processes used something of the limits that may count now.
func (s *SharedLimits) Recalls(now time.Time) bool {
	s.g.lock()
	defer s.g.unlock()
	o := s.own
	o.advance(now)
	return o.recalls(now)
}

func (o *ownLimits) recalls(now time.Time) bool {
	if o.sharing == nil {
		return false
	}
	if len(o.sharing.before) > 0 || len(o.sharing.windows) > 0 {
		return true
	}
	for _, a := range o.caps {
		if o.before(now, a) > 0 {
			return true
		}
	}
	return false
}

// before is what earlier processes used of a budget in the present period, unless it is counted already.
func (o *ownLimits) before(now time.Time, a *account) int64 {
	if a.recalled {
		return 0
	}
	used, _ := o.sharing.all.past.OfTenant(now, o.owner, a.Budget)
	return used
}

// Recall counts as used here what earlier processes used, because the store knows nothing of it any more.
func (s *SharedLimits) Recall(now time.Time) {
	s.g.lock()
	defer s.g.unlock()
	s.own.told(Told{Verb: limitsRecall, Now: s.g.line.since(now)})
	s.own.recall(now)
}

func (o *ownLimits) recall(now time.Time) {
	o.advance(now)
	o.rebook(o.sharing.windows, o.sharing.until)
	for _, r := range o.sharing.before {
		o.set.Remember(r.Began, r.Ended, &r.Booked.Own, &r.Took.Own)
	}
	o.sharing.forget()
	for _, a := range o.caps {
		a.book(now, budget.MemberID{}, o.before(now, a))
		a.recalled = true
	}
}

// forget drops what earlier processes used.
func (c *limitSharing) forget() {
	c.before = nil
	c.windows = nil
}

// Recalls reports whether earlier processes used something of the pool's budgets that counts now.
func (s *SharedSlots) Recalls(now time.Time) bool {
	s.g.lock()
	defer s.g.unlock()
	for _, a := range s.p.shares {
		if len(s.before(now, a)) > 0 {
			return true
		}
	}
	return false
}

// before is what earlier processes used of a pool's budget in the present period, by tenant, unless it is counted already.
func (s *SharedSlots) before(now time.Time, a *account) map[string]int64 {
	if a.recalled {
		return nil
	}
	used, _ := s.g.changes.past.OfPool(now, s.p.name, a.Budget)
	return used
}

// Recall counts as used here what earlier processes used, because the store knows nothing of it any more.
func (s *SharedSlots) Recall(now time.Time) {
	s.g.lock()
	defer s.g.unlock()
	s.told(Told{Verb: slotsRecall, Now: s.g.line.since(now)})
	s.recall(now)
}

func (s *SharedSlots) recall(now time.Time) {
	p := s.p
	for i, a := range p.shares {
		used := s.before(now, a)
		for t, st := range p.seats {
			a.book(now, st.members[i], used[t.name])
			delete(used, t.name)
		}
		for gone, n := range used {
			id := a.split.Add(now, gone, 1)
			a.book(now, id, n)
			a.split.Remove(now, id)
		}
		a.recalled = true
	}
}

// book counts usage that was held nowhere.
func (a *account) book(now time.Time, member budget.MemberID, used int64) {
	if a.cap != nil {
		h, _ := a.cap.Hold(now, 0)
		a.cap.Settle(now, h, a.units(used))
		return
	}
	h, _ := a.split.Hold(now, member, 0)
	a.split.Settle(now, h, a.units(used))
}
