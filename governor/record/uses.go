package record

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/governor/terms"
)

const periods = int(budget.Life) + 1

// Uses adds up the costs of calls in the present hour, day, week and month, and in all, by tenant and pool,
// from records alone, whether there is a budget or not. So it is exact at every record of a
// journal, wherever that breaks off, and a budget that is new in the policy finds earlier usage
// before.
//
// It counts as package budget does: a call counts in the period in which it was held, at its
// hold until it ends. Cost beyond that counts in the period of its end, if that is a
// later one.
type Uses struct {
	zone       *time.Location
	now        time.Time
	start, end [periods]time.Time
	next       time.Time // the first of end
	era        uint64    // counts up when a period begins
	rows       map[Owner]*Row
	pools      map[string]bool // of the rows
	members    map[Owner]int   // how many rows the members of a tenant have in a pool
	changed    map[Owner]*Row  // since Changed was last called
}

// Row is the Use of one Owner as it is counted.
type Row struct {
	Use
	changed bool   // it is among those changed
	stored  bool   // a journal has it, which is told when it is over
	era     uint64 // in which it was renewed
}

// Owner is a tenant in a pool; in none, for what counts for that tenant alone.
type Owner struct{ Tenant, Pool string }

// Use is the usage of one Owner, by period: since when, in Unix seconds, and how much of each Unit. The Start of its life is the day of
// its last call.
type Use struct {
	Start [periods]int64
	Used  [periods]terms.Spend
}

// Compare orders owners by tenant, and then by pool.
func (o Owner) Compare(other Owner) int {
	return cmp.Or(cmp.Compare(o.Tenant, other.Tenant), cmp.Compare(o.Pool, other.Pool))
}

// NewUses returns an empty account.
func NewUses(zone *time.Location) *Uses {
	return &Uses{zone: zone, rows: map[Owner]*Row{}, pools: map[string]bool{}, members: map[Owner]int{}, changed: map[Owner]*Row{}}
}

// Clone copies all usage, for somebody who asks for no Changed.
func (u *Uses) Clone() *Uses {
	c := *u
	c.changed = map[Owner]*Row{}
	c.pools = maps.Clone(u.pools)
	c.members = maps.Clone(u.members)
	c.rows = make(map[Owner]*Row, len(u.rows))
	for who, row := range u.rows {
		c.rows[who] = &Row{Use: row.Use}
	}
	return &c
}

// Set restores the usage of one owner.
func (u *Uses) Set(who Owner, use Use) {
	row := u.row(who)
	row.Use = use
	row.stored = true
	row.era = 0
	for _, start := range use.Start {
		u.Advance(time.Unix(start, 0)) // even if the clock was put back since
	}
}

// row is the row of an owner. That of a new member with a name is nobody's while terms.MostMembers have one.
func (u *Uses) row(who Owner) *Row {
	row := u.rows[who]
	if row != nil {
		return row
	}
	if of, called, member := terms.CutMember(who.Tenant); member && called != "" {
		if u.members[Owner{of, who.Pool}] >= terms.MostMembers {
			return &Row{changed: true} // so that nobody is told of it
		}
		u.members[Owner{of, who.Pool}]++
	}
	row = &Row{}
	u.rows[who] = row
	u.pools[who.Pool] = true
	return row
}

// Changed returns the rows that have changed since it was last called. Those that are over have become zero.
func (u *Uses) Changed() map[Owner]Use {
	out := make(map[Owner]Use, len(u.changed))
	for who, row := range u.changed {
		out[who] = row.Use
		row.changed = false
	}
	clear(u.changed)
	return out
}

// Read takes in a record.
func (u *Uses) Read(r *Record) {
	switch r.Kind {
	case Admitted:
		u.Advance(r.Began)
		u.add(r, r.Booked.Spend)
	case Ended:
		u.Advance(r.Ended)
		u.add(r, r.Took.Spend.Minus(r.Booked.Spend))
	}
}

// add counts d in each period in which the call was held. In other periods it counts only the
// cost beyond the hold.
func (u *Uses) add(r *Record, d terms.Spend) {
	if d == (terms.Spend{}) {
		return
	}
	row := u.change(Owner{r.Tenant, r.Pool})
	for per := range periods {
		held := !r.Held.Before(u.start[per])
		for k := range d {
			if held || d[k] > 0 && r.Kind == Ended {
				row.Used[per][k] = min(max(0, row.Used[per][k]+d[k]), MaxUse)
			}
		}
	}
	row.Start[budget.Life] = u.start[budget.Day].Unix()
}

// Row is the row of an owner, for Take. Unless it is of a member, it stays the owner's.
func (u *Uses) Row(now time.Time, who Owner) *Row {
	u.Advance(now) // which drops rows in which nothing counts
	return u.row(who)
}

// Take counts in a row the cost of a call that has ended now, and was not counted before. It is for those who ask for no Changed.
func (u *Uses) Take(now time.Time, row *Row, d terms.Spend) {
	u.Advance(now)
	if d == (terms.Spend{}) {
		return
	}
	u.renew(row)
	for per := range row.Used {
		used := &row.Used[per]
		for k := range d {
			used[k] = min(used[k]+d[k], MaxUse)
		}
	}
	row.Start[budget.Life] = u.start[budget.Day].Unix()
}

// change is the row of an owner, as of the present periods, that is about to change.
func (u *Uses) change(who Owner) *Row {
	row := u.row(who)
	if !row.changed {
		row.changed = true
		row.stored = true
		u.changed[who] = row
	}
	u.renew(row)
	return row
}

// renew clears the usage of a period that is over. Usage that began within the present period
// counts, even if it was counted in another time zone.
func (u *Uses) renew(row *Row) {
	if row.era == u.era {
		return
	}
	row.era = u.era
	for per := range budget.Life {
		start := u.start[per].Unix()
		if start == row.Start[per] {
			continue
		}
		if since := time.Unix(row.Start[per], 0); since.Before(u.start[per]) || !since.Before(u.end[per]) {
			row.Used[per] = terms.Spend{}
		}
		row.Start[per] = start
	}
}

// MaxUse is where the books stop counting.
const MaxUse = int64(1) << 60

// Advance moves to now; time only moves forward.
func (u *Uses) Advance(now time.Time) {
	now = now.Round(0)
	if now.Before(u.now) {
		return
	}
	u.now = now
	if now.Before(u.next) {
		return
	}
	for per := range periods {
		if !now.Before(u.end[per]) {
			u.start[per], u.end[per] = budget.Period(per).Bounds(now, u.zone)
		}
	}
	u.next = slices.MinFunc(u.end[:], time.Time.Compare)
	u.era++
	maps.DeleteFunc(u.rows, func(who Owner, row *Row) bool {
		of, called, member := terms.CutMember(who.Tenant)
		over := member && !row.changed && u.over(row)
		if over && called != "" {
			u.members[Owner{of, who.Pool}]--
		}
		if over && row.stored {
			u.changed[who] = &Row{}
		}
		return over
	})
}

// over reports whether nothing of a row counts any more.
func (u *Uses) over(row *Row) bool {
	u.renew(row)
	return [budget.Life]terms.Spend(row.Used[:budget.Life]) == [budget.Life]terms.Spend{} && u.now.Sub(time.Unix(row.Start[budget.Life], 0)) > terms.MemberLife
}

// OfTenant is the usage by a tenant and its teams of a budget in the present period, which began at start, in all pools, even
// those that are gone.
func (u *Uses) OfTenant(now time.Time, name string, b terms.Budget) (used int64, start time.Time) {
	u.Advance(now)
	start = u.start[b.Per]
	if _, _, member := terms.CutMember(name); member { // one of very many, who has no teams
		for pool := range u.pools {
			if row := u.rows[Owner{name, pool}]; row != nil {
				u.renew(row)
				used += min(row.Used[b.Per][b.Unit], MaxUse-used)
			}
		}
		return used, start
	}
	for who, n := range u.by(b) {
		if team, ok := strings.CutPrefix(who.Tenant, name); ok && (team == "" || team[0] == '/' && who.Pool != "") {
			used += min(n, MaxUse-used)
		}
	}
	return used, start
}

// OfPool is the same for the tenants of a pool, by name, with their members.
func (u *Uses) OfPool(now time.Time, pool string, b terms.Budget) (used map[string]int64, start time.Time) {
	u.Advance(now)
	used = map[string]int64{}
	for who, n := range u.by(b) {
		if who.Pool == pool {
			of := terms.OwnerOf(who.Tenant)
			used[of] = min(used[of]+n, MaxUse)
		}
	}
	return used, u.start[b.Per]
}

// Owners are those who have a row, in order.
func (u *Uses) Owners() []Owner { return slices.SortedFunc(maps.Keys(u.rows), Owner.Compare) }

// by iterates over the usage of a budget's unit in the present period, by owner.
func (u *Uses) by(b terms.Budget) iter.Seq2[Owner, int64] {
	return func(yield func(Owner, int64) bool) {
		for who, row := range u.rows {
			u.renew(row)
			if n := row.Used[b.Per][b.Unit]; n > 0 && !yield(who, n) {
				return
			}
		}
	}
}
