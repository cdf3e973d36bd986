package governor

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/governor/record"
	"github.com/llmgov/llmgov/governor/terms"
)

// remember books the calls of the past in the rolling limits, and has adaptive limits and expectations go on where they were.
func (tb *table) remember(now time.Time, past *record.Past) {
	tb.restoreWindows(now, past)
	for _, r := range past.Ended {
		r.Began = onClock(now, r.Began)
		r.Ended = onClock(now, r.Ended)
		tb.rememberCall(now, &r)
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

// rememberCall books a call that has ended, from when Record.Costs says.
func (tb *table) rememberCall(now time.Time, r *record.Record) {
	if p := tb.pools[r.Pool]; p != nil && !p.set.Shared { // whoever shares it out remembers
		first, late := r.Costs(p.rules.Accounting)
		p.escrow.Remember(now, r.Began, first)
		p.escrow.Remember(now, r.Ended, late)
		p.rememberUpstreams(now, r.Began, r.Ended, first, r.Took.Pool)
	}
	if v := tb.known(now, r.Tenant); v != nil {
		chain := v.chainTo(now, r.Pool, (*tenantView).own)
		if r.Pool == "" { // it counts for this tenant alone
			chain = chain[:1]
		}
		for _, k := range chain {
			k.own.remember(r)
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

// PoolBookings are the costs of pools' calls, by account (SharedPool.Name), in the order of time. Axes are those of the account, by index.
type PoolBookings map[string][]escrow.Booking

// PoolBookings are the costs of the calls of the Past, which must not be nil, for whoever shares the pools' limits out.
func (c *Config) PoolBookings() PoolBookings {
	all := PoolBookings{}
	for i := range c.Pools {
		list := c.Past.Bookings(c.Pools[i].Name, c.Pools[i].Accounting)
		for pair, axes := range pairs {
			own := []escrow.Booking{}
			for _, b := range list {
				if at := slices.Index(axes[:], b.Axis); at >= 0 {
					b.Axis = escrow.Axis(at)
					own = append(own, b)
				}
			}
			all[accountOf(c.Pools[i].Name, pair)] = own
		}
	}
	return all
}

// remember books the cost of a call of the past. Shared limits keep it for Recall.
func (o *ownLimits) remember(r *record.Record) {
	switch {
	case o.sharing == nil:
		o.set.Remember(r.Began, r.Ended, &r.Booked.Own, &r.Took.Own)
	case o.set.Limited():
		o.sharing.before = append(o.sharing.before, r)
	}
}

// onClock converts a time of the wall clock to the clock of now: as long ago as the wall clock
// says. A time in the future, after the wall clock was put back, is taken for now by the ledgers.
func onClock(now, at time.Time) time.Time { return now.Add(at.Sub(now.Round(0))) }

// absent are the tenants that a pool's budgets know, but the state of one of them does not name.
func (tb *table) absent(s *record.ShareState) (names []string) {
	at := tb.pools[s.Pool].index
	for _, t := range tb.inOrder.tenants {
		_, named := slices.BinarySearchFunc(s.State.Members, t.name, func(m budget.MemberState, name string) int {
			return strings.Compare(m.Name, name)
		})
		if !named && t.access[at].seat != nil {
			names = append(names, t.name)
		}
	}
	return names
}

// restoreSplit restores the usage of a pool's budget by its tenants. From the saved state it takes
// which tenants there were, and how much of its share each has let pass; usage it takes
// from the tally, which is as new as the last record. know adds a tenant of the saved state, if it still
// exists. Tenants that are new are added afterwards, and have their shares kept for them from the
// start.
func (a *account) restoreSplit(now time.Time, r *recall, pool string, know func(tenant string)) {
	used, start := r.uses.OfPool(now, pool, a.Budget)
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
