package governor

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/terms"
)

// Past is the memory of a journal of calls that still count. Read the records of the last minute,
// and those of calls that ran longer, in their order. A call whose end is missing is assumed to
// have taken its booked cost, and to have ended with the process.
type Past struct {
	// Uses is the usage of budgets.
	Uses *Uses
	// Saved is the state of pools that no record has. It may be older than Uses.
	Saved

	now     time.Time
	lived   time.Time // the latest that the process may have lived
	running map[uint64]Record
	ended   []Record
	cut     int
	last    uint64 // the last call's number in the journal
}

// NewPast returns a past in which nothing happened. now is when it is read.
func NewPast(now time.Time, zone *time.Location) *Past {
	return &Past{Uses: NewUses(zone), now: now.Round(0), lived: now.Round(0), running: map[uint64]Record{}}
}

// knows reports whether it is the past of a process that has admitted calls, so that all of the last minute is in it.
func (p *Past) knows() bool { return p != nil && p.last > 0 }

// LivedUntil says that the process whose past this is had ended by that time at the latest. The
// default is now.
func (p *Past) LivedUntil(at time.Time) {
	at = at.Round(0)
	if at.Before(p.lived) {
		p.lived = at
	}
}

// Read adds a record, but for its usage of budgets, which is for Uses.
func (p *Past) Read(r Record) {
	p.last = max(p.last, r.Call)
	r.Booked.split()
	r.Took.split()
	switch r.Kind {
	case RecordAdmitted, RecordRunning:
		p.running[r.Call] = r
	case RecordGrown:
		if began, ok := p.running[r.Call]; ok {
			began.Booked.Pool[escrow.Tokens] = max(began.Booked.Pool[escrow.Tokens], r.Booked.Pool[escrow.Tokens])
			began.Booked.split()
			p.running[r.Call] = began
		}
	case RecordEnded:
		delete(p.running, r.Call)
		if p.now.Sub(r.Ended) <= 2*escrow.Window || !p.At.IsZero() && r.Ended.After(p.At) {
			p.ended = append(p.ended, r)
		}
	}
}

// Cut ends the calls that were in flight when the journal broke off, and returns the records of
// their ends.
func (p *Past) Cut() []Record {
	var cut []Record
	for _, call := range slices.Sorted(maps.Keys(p.running)) {
		r := p.running[call]
		r.Kind = RecordEnded
		r.Ended = later(r.Began, p.lived)
		r.Took = r.Booked
		cut = append(cut, r)
	}
	for _, r := range cut {
		p.Read(r)
	}
	p.cut += len(cut)
	return cut
}

// CutOff is how many calls were in flight when the journal broke off.
func (p *Past) CutOff() int { return p.cut }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// remember books the calls of the past in the rolling limits, and has adaptive limits and expectations go on where they were.
func (tb *table) remember(now time.Time, past *Past) {
	tb.restoreWindows(now, past)
	for i := range past.ended {
		tb.rememberCall(now, &past.ended[i])
	}
	for pool, limit := range past.Limits {
		if p := tb.pools[pool]; p != nil {
			p.resume(now, limit)
		}
	}
	for pool, l := range past.Lengths {
		if p := tb.pools[pool]; p != nil {
			p.recall(l)
		}
	}
}

// rememberCall books a call that has ended.
//
// Cost that the provider counts at admission is booked at that time, so far as it was booked then; the
// rest is booked at the end of the call. Tokens that are counted as they are produced, or
// at the end, are booked at the end: each of them leaves the minute then or earlier, so none is
// forgotten too soon.
func (tb *table) rememberCall(now time.Time, r *Record) {
	began := onClock(now, r.Began)
	ended := onClock(now, r.Ended)
	if p := tb.pools[r.Pool]; p != nil && !p.set.Shared { // whoever shares it out remembers
		first, late := r.costs(p.rules.Accounting)
		p.escrow.Remember(now, began, first)
		p.escrow.Remember(now, ended, late)
		p.rememberUpstreams(now, began, ended, first, r.Took.Pool)
	}
	if v := tb.known(now, r.Tenant); v != nil {
		chain := v.chainTo(now, r.Pool, (*tenantView).own)
		if r.Pool == "" { // it counts for this tenant alone
			chain = chain[:1]
		}
		for _, k := range chain {
			k.own.remember(began, ended, &r.Booked.Own, &r.Took.Own)
		}
	}
}

// known is a tenant of the past, or a member of one; a team that is gone counts in its parent.
func (tb *table) known(now time.Time, name string) (v *tenantView) {
	for v == nil && name != "" {
		v = tb.view(now, name, "")
		name = terms.TeamOf(name)
	}
	return v
}

// costs are the parts of the cost of a call that has ended, in its pool, that count from its beginning and from its end.
func (r *Record) costs(accounting escrow.Accounting) (first, late escrow.Cost) {
	for k := range first {
		first[k] = min(r.Booked.Pool[k], r.Took.Pool[k])
		late[k] = r.Took.Pool[k] - first[k]
	}
	if accounting == escrow.AdmitMax {
		return first, late
	}
	late = r.Took.Pool
	late[escrow.Requests] -= first[escrow.Requests]
	return escrow.Cost{escrow.Requests: first[escrow.Requests]}, late
}

// pastSlot is the time over which Bookings add up costs.
const pastSlot = 250 * time.Millisecond

// PoolBookings are the costs of pools' calls, by account (SharedPool.Name), in the order of time. Axes are those of the account, by index.
type PoolBookings map[string][]escrow.Booking

// Bookings are the costs of pools' calls, for whoever shares their limits out. They are those that a pool of this process alone would
// begin with, each counted a little longer.
func (p *Past) Bookings(pools []Pool) PoolBookings {
	all := PoolBookings{}
	for i := range pools {
		list := p.bookings(pools[i].Name, pools[i].Accounting)
		for pair, axes := range pairs {
			own := []escrow.Booking{}
			for _, b := range list {
				if at := slices.Index(axes[:], b.Axis); at >= 0 {
					b.Axis = escrow.Axis(at)
					own = append(own, b)
				}
			}
			all[accountOf(pools[i].Name, pair)] = own
		}
	}
	return all
}

func (p *Past) bookings(pool string, accounting escrow.Accounting) []escrow.Booking {
	sums := map[int64]escrow.Cost{} // by slot
	book := func(at time.Time, c escrow.Cost) {
		slot := at.UnixMilli() / pastSlot.Milliseconds()
		sum := sums[slot]
		for k := range sum {
			sum[k] += c[k]
		}
		sums[slot] = sum
	}
	for i := range p.ended {
		r := &p.ended[i]
		if r.Pool != pool || p.now.Sub(r.Ended) > 2*escrow.Window {
			continue
		}
		first, late := r.costs(accounting)
		book(r.Began, first)
		book(r.Ended, late)
	}
	list := []escrow.Booking{}
	for _, slot := range slices.Sorted(maps.Keys(sums)) {
		end := time.UnixMilli((slot + 1) * pastSlot.Milliseconds())
		for k, cost := range sums[slot] {
			if cost != 0 {
				list = append(list, escrow.Booking{End: end, Axis: escrow.Axis(k), Cost: cost})
			}
		}
	}
	return list
}

// remember books the cost of a call of the past, by the rule of rememberCall. Shared limits keep it for Recall.
func (o *ownLimits) remember(began, ended time.Time, booked, took *limits.Cost) {
	switch {
	case o.sharing == nil:
		o.set.Remember(began, ended, booked, took)
	case o.set.Limited():
		o.sharing.before = append(o.sharing.before, pastCall{began, ended, *booked, *took})
	}
}

// onClock converts a time of the wall clock to the clock of now: as long ago as the wall clock
// says. A time in the future, after the wall clock was put back, is taken for now by the ledgers.
func onClock(now, at time.Time) time.Time { return now.Add(at.Sub(now.Round(0))) }

// ShareState is how one budget of a pool stands between its tenants.
type ShareState struct {
	Pool  string
	Unit  Unit
	Per   budget.Period
	State budget.SplitState
	// Absent are tenants that the pool's budgets know but State does not name, since nothing was
	// heard of them for a whole period.
	Absent []string
}

// addAbsent adds the tenants of a table that State does not name.
func (s *ShareState) addAbsent(tb *table) {
	at := tb.pools[s.Pool].index
	for _, t := range tb.inOrder.tenants {
		_, named := slices.BinarySearchFunc(s.State.Members, t.name, func(m budget.MemberState, name string) int {
			return strings.Compare(m.Name, name)
		})
		if !named && t.access[at].seat != nil {
			s.Absent = append(s.Absent, t.name)
		}
	}
}

// restoreSplit restores the usage of a pool's budget by its tenants. From the saved state it takes
// which tenants there were, and how much of its share each has let pass; usage it takes
// from the tally, which is as new as the last record. know adds a tenant of the saved state, if it still
// exists. Tenants that are new are added afterwards, and have their shares kept for them from the
// start.
func (a *account) restoreSplit(now time.Time, r *recall, pool string, know func(tenant string)) {
	used, start := r.ofPool(now, pool, a.Budget)
	if len(used) == 0 && len(r.shares) == 0 {
		return
	}
	for tenant, n := range used {
		used[tenant] = a.units(n)
	}
	st := budget.SplitState{Start: start, From: start}
	for _, s := range r.shares {
		if s.Pool != pool || s.Unit != a.Unit || s.Per != a.Per {
			continue
		}
		same := s.State.Start.Equal(st.Start)
		if same {
			st.From = s.State.From
		}
		for _, m := range s.State.Members {
			if !same { // of an earlier period only the names matter
				m = budget.MemberState{Name: m.Name}
			}
			m.Used = used[m.Name]
			m.Asked = m.Asked || m.Used > 0
			delete(used, m.Name)
			st.Members = append(st.Members, m)
			know(m.Name)
		}
		for _, name := range s.Absent {
			know(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		st.Members = append(st.Members, budget.MemberState{Name: name, Asked: true, Used: used[name]})
	}
	a.split.Restore(now, st)
}

// PastState is a Past as a value that can be written down.
type PastState struct {
	Uses   []OwnerUse
	Shares []ShareState
	Limits map[string]int64 `json:",omitempty"`
	// Windows and At are those of Saved.
	Windows []OwnerWindows `json:",omitempty"`
	At      time.Time      `json:",omitzero"`
	// Lengths are what pools have learned of how long calls get, by pool.
	Lengths map[string]Lengths `json:",omitempty"`
	// Ended are the calls of the last minutes.
	Ended []Record
	// Last is the last call's number in the journal.
	Last uint64
}

// OwnerUse is the usage of one Owner.
type OwnerUse struct {
	Owner
	Use
}

// State copies a past in which no call runs any more; see Cut.
func (p *Past) State() *PastState {
	s := &PastState{
		Shares: slices.Clone(p.Shares), Limits: maps.Clone(p.Limits), Windows: slices.Clone(p.Windows), At: p.At,
		Lengths: maps.Clone(p.Lengths), Ended: slices.Clone(p.ended), Last: p.last,
	}
	for who, use := range p.Uses.rows {
		s.Uses = append(s.Uses, OwnerUse{who, use.Use})
	}
	slices.SortFunc(s.Uses, func(a, b OwnerUse) int { return a.compare(b.Owner) })
	return s
}

// Past returns the past that was copied, as read at now.
func (s *PastState) Past(now time.Time, zone *time.Location) *Past {
	p := NewPast(now, zone)
	for _, u := range s.Uses {
		p.Uses.Set(u.Owner, u.Use)
	}
	p.Shares = slices.Clone(s.Shares)
	p.Limits = maps.Clone(s.Limits)
	p.Windows = slices.Clone(s.Windows)
	p.At = s.At
	p.Lengths = maps.Clone(s.Lengths)
	p.ended = slices.Clone(s.Ended)
	p.last = s.Last
	return p
}
