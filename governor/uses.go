package governor

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
	rows       map[Owner]*useRow
	pools      map[string]bool   // of the rows
	members    map[Owner]int     // how many rows the members of a tenant have in a pool
	changed    map[Owner]*useRow // since Changed was last called
}

// useRow is a Use, and whether it is among those changed.
type useRow struct {
	Use
	changed bool
	stored  bool   // a journal has it, which is told when it is over
	era     uint64 // in which it was renewed
}

// Owner is a tenant in a pool; in none, for what counts for that tenant alone (see belief).
type Owner struct{ Tenant, Pool string }

// Use is the usage of one Owner, by period: since when, in Unix seconds, and how much of each Unit. The Start of its life is the day of
// its last call.
type Use struct {
	Start [periods]int64
	Used  [periods]Spend
}

func (o Owner) compare(other Owner) int {
	return cmp.Or(cmp.Compare(o.Tenant, other.Tenant), cmp.Compare(o.Pool, other.Pool))
}

// NewUses returns an empty account.
func NewUses(zone *time.Location) *Uses {
	return &Uses{zone: zone, rows: map[Owner]*useRow{}, pools: map[string]bool{}, members: map[Owner]int{}, changed: map[Owner]*useRow{}}
}

// clone copies all usage.
func (u *Uses) clone() *Uses {
	c := *u
	c.changed = map[Owner]*useRow{}
	c.pools = maps.Clone(u.pools)
	c.members = maps.Clone(u.members)
	c.rows = make(map[Owner]*useRow, len(u.rows))
	for who, row := range u.rows {
		c.rows[who] = &useRow{Use: row.Use}
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
		u.advance(time.Unix(start, 0)) // even if the clock was put back since
	}
}

// row is the row of an owner. That of a new member with a name is nobody's while mostMembers have one.
func (u *Uses) row(who Owner) *useRow {
	row := u.rows[who]
	if row != nil {
		return row
	}
	if of, called, member := terms.CutMember(who.Tenant); member && called != "" {
		if u.members[Owner{of, who.Pool}] >= mostMembers {
			return &useRow{changed: true} // so that nobody is told of it
		}
		u.members[Owner{of, who.Pool}]++
	}
	row = &useRow{}
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
	case RecordAdmitted:
		u.advance(r.Began)
		u.add(r, r.Booked.Spend)
	case RecordEnded:
		u.advance(r.Ended)
		d := r.Took.Spend
		for k := range d {
			d[k] -= r.Booked.Spend[k]
		}
		u.add(r, d)
	}
}

// add counts d in each period in which the call was held. In other periods it counts only the
// cost beyond the hold.
func (u *Uses) add(r *Record, d Spend) {
	if d == (Spend{}) {
		return
	}
	row := u.change(Owner{r.Tenant, r.Pool})
	for per := range periods {
		held := !r.Held.Before(u.start[per])
		for k := range d {
			if held || d[k] > 0 && r.Kind == RecordEnded {
				row.Used[per][k] = min(max(0, row.Used[per][k]+d[k]), maxUse)
			}
		}
	}
	row.Start[budget.Life] = u.start[budget.Day].Unix()
}

// take counts in a row the cost of a call that has ended now, and was not counted before. It is for those who ask for no Changed.
func (u *Uses) take(now time.Time, row *useRow, d Spend) {
	u.advance(now)
	if d == (Spend{}) {
		return
	}
	u.renew(row)
	for per := range row.Used {
		used := &row.Used[per]
		for k := range d {
			used[k] = min(used[k]+d[k], maxUse)
		}
	}
	row.Start[budget.Life] = u.start[budget.Day].Unix()
}

// change is the row of an owner, as of the present periods, that is about to change.
func (u *Uses) change(who Owner) *useRow {
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
func (u *Uses) renew(row *useRow) {
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
			row.Used[per] = Spend{}
		}
		row.Start[per] = start
	}
}

// maxUse is where the books stop counting.
const maxUse = int64(1) << 60

// advance moves to now; time only moves forward.
func (u *Uses) advance(now time.Time) {
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
	maps.DeleteFunc(u.rows, func(who Owner, row *useRow) bool {
		of, called, member := terms.CutMember(who.Tenant)
		over := member && !row.changed && u.over(row)
		if over && called != "" {
			u.members[Owner{of, who.Pool}]--
		}
		if over && row.stored {
			u.changed[who] = &useRow{}
		}
		return over
	})
}

// over reports whether nothing of a row counts any more.
func (u *Uses) over(row *useRow) bool {
	u.renew(row)
	return [budget.Life]Spend(row.Used[:budget.Life]) == [budget.Life]Spend{} && u.now.Sub(time.Unix(row.Start[budget.Life], 0)) > terms.MemberLife
}

// ofTenant is the usage by a tenant and its teams of a budget in the present period, in all pools, even
// those that are gone.
func (u *Uses) ofTenant(name string, b Budget) int64 {
	sum := int64(0)
	if _, _, member := terms.CutMember(name); member { // one of very many, who has no teams
		for pool := range u.pools {
			if row := u.rows[Owner{name, pool}]; row != nil {
				u.renew(row)
				sum += min(row.Used[b.Per][b.Unit], maxUse-sum)
			}
		}
		return sum
	}
	for who, n := range u.by(b) {
		if team, ok := strings.CutPrefix(who.Tenant, name); ok && (team == "" || team[0] == '/' && who.Pool != "") {
			sum += min(n, maxUse-sum)
		}
	}
	return sum
}

// by iterates over the usage of a budget's unit in the present period, by owner.
func (u *Uses) by(b Budget) iter.Seq2[Owner, int64] {
	return func(yield func(Owner, int64) bool) {
		for who, row := range u.rows {
			u.renew(row)
			if n := row.Used[b.Per][b.Unit]; n > 0 && !yield(who, n) {
				return
			}
		}
	}
}
