package limits

import (
	"strconv"
	"time"
)

// GrantRetry is when to retry a call for which other processes may have to give something back
// first: they say what they have once a second, and a quarter of one later that they know of a smaller grant.
const GrantRetry = 1500 * time.Millisecond

// grants are the amounts that this process may use of limits that are shared with others.
type grants struct {
	alone   bool        // nobody answers: the process counts by itself, against the whole limits
	until   time.Time   // when the grants expire; zero when they have
	amounts [Axes]int64 // granted of each limit
	others  [Axes]int64 // usage in other processes
	// leaving is when the usage of others leaves the limits.
	leaving [Timed]leaving

	last    [Axes]int64 // cost of the last call, admitted or not
	traffic Traffic
	lacks   bool // a call found too small a grant, or one is expected to; see Noted
	refuses bool // a call was refused from memory; see Noted
	noRoom  [Axes]noRoom
	lacked  Axis // for which the last call was refused that asked
}

// Traffic counts calls.
type Traffic struct {
	Taken    [Axes]int64 // by all calls that were booked here
	Admitted int64       // calls that another process let in
}

// Demand is the demand of this process on one limit of an owner: on an axis of its Set, or on a budget, which is no Set's. Amounts are in the
// limit's own units.
type Demand struct {
	Axis Axis // Budget for all budgets
	// Name tells the limit apart from the owner's others, and from itself in an earlier period or window by the clock.
	Name string
	// Length is how long use counts; 0 on Concurrency. Ends is when all use stops counting at once; zero if it leaves little
	// by little. Drains says that it leaves at a rate that depends on the grant.
	Length time.Duration
	Ends   time.Time
	Drains bool
	// Limit is the whole limit, and Used the usage here.
	Limit, Used int64
	// Held is the part of Used that calls in flight may give back, of a whole budget.
	Held int64
	// Recent is the part of Used since demand was last passed on, of a pool's budget and of members' shares.
	Recent int64
	// Left is the part of a whole budget that all processes are known to have left. It is 0 if no calls may come, and negative if more was
	// used than there is.
	Left int64
	// Waiting is the cost of all calls in line, and of those that come back about now to places that are kept for them. Calls that ask
	// before they go are left out, because the store answers each of them.
	Waiting int64
	// Need is Used and the cost of the first call in line, if that waits for a grant.
	Need int64
	// Last is the cost of the last call, admitted or not.
	Last int64
}

// Demand reports the demand on an axis.
func (s *Set) Demand(k Axis) Demand {
	d := Demand{Axis: k, Name: s.ShareName(k), Limit: s.limits[k], Used: s.UsedHere(k), Last: s.grants.last[k], Drains: s.Drains(k)}
	if k != Concurrency && s.accounts[k] != nil {
		d.Length = s.length[k]
		d.Ends = s.accounts[k].Ends()
	}
	cost, calls := s.line.wanting()
	back, returning := s.returning()
	d.Waiting = s.amounts(k, cost.Plus(back, 1), calls+returning)
	first := s.line.first()
	if first != nil && !first.asks {
		d.Need = d.Used + s.Amount(k, first.cost)
	}
	return d
}

// ShareName is the Name of a limit, and of a window by the clock its end: what is granted of one is not of the next.
func (s *Set) ShareName(k Axis) string {
	name := s.Name(k)
	if k == Concurrency || s.accounts[k] == nil || s.accounts[k].Ends().IsZero() {
		return name
	}
	return name + " " + strconv.FormatInt(s.accounts[k].Ends().UnixMilli(), 10)
}

// begin gives up the grant of a window by the clock that is over.
func (g *grants) begin(k Axis) {
	g.amounts[k] = 0
	g.others[k] = 0
	g.leaving[k] = nil
	g.noRoom[k] = noRoom{}
}

// forget drops what is known of axes that other windows have now.
func (g *grants) forget(before, now *books) {
	for k := firstWindow; k < Concurrency; k++ {
		if now.accounts[k] != before.accounts[k] {
			g.begin(k)
		}
	}
}

// Traffic counts the calls so far.
func (s *Set) Traffic() Traffic { return s.grants.traffic }

// Asked reports whether, since it was last Noted, a call lacked a grant (lacks), or was refused
// because it is remembered that there is no room (refuses).
func (s *Set) Asked() (lacks, refuses bool) { return s.grants.lacks, s.grants.refuses }

// Noted says that all that was asked for has been passed on.
func (s *Set) Noted() {
	s.grants.lacks = false
	s.grants.refuses = false
}

// NoteLack notes that the grants are too small for a call. It reports whether that is news.
func (s *Set) NoteLack(c Cost) bool {
	g := s.grants
	if g == nil {
		return false
	}
	for k := range Axis(Axes) {
		g.last[k] = max(g.last[k], s.Amount(k, c))
	}
	news := !g.lacks
	g.lacks = true
	return news
}

// Renew says that answers come, and until when grants are in force. Allow says how large they are.
func (s *Set) Renew(until time.Time) {
	s.grants.alone = false
	s.grants.until = until
	s.limit()
}

// Prolong has grants that are in force expire as late as the earlier of two times, if that is later than they do.
func (s *Set) Prolong(kept, sign time.Time) {
	if sign.After(kept) {
		sign = kept
	}
	if g := s.grants; !g.until.IsZero() && sign.After(g.until) {
		g.until = sign
	}
}

// Allow puts a grant in force: how much of a limit this process may use.
func (s *Set) Allow(k Axis, amount int64) {
	s.grants.amounts[k] = amount
	s.limit()
}

// Granted is how much of a limit this process may use by its last grant.
func (s *Set) Granted(k Axis) int64 { return s.grants.amounts[k] }

// Elsewhere says how much of a limit other processes use.
func (s *Set) Elsewhere(k Axis, used int64) {
	s.grants.others[k] = used
	if k != Concurrency {
		s.grants.leaving[k].hear(s.now, used, s.length[k])
	}
}

// Alone says that nobody answers. From now until Renew this process counts by itself, against the
// whole limits. It changes nothing, and reports false, while grants are in force.
func (s *Set) Alone() bool {
	if s.now.Before(s.grants.until) {
		return false
	}
	s.grants.alone = true
	s.limit()
	return true
}

// Drop gives up all grants. The usage of others is unknown from then on.
func (s *Set) Drop() {
	g := s.grants
	g.until = time.Time{}
	g.amounts = [Axes]int64{}
	g.others = [Axes]int64{}
	s.limit()
}

// Shared reports whether calls in other processes count, too: the limits are shared, and somebody
// answers.
func (s *Set) Shared() bool { return s.grants != nil && !s.grants.alone }

// InForce reports whether there are grants that have not expired.
func (s *Set) InForce() bool { return s.grants != nil && !s.grants.until.IsZero() }

// Admit books a call that another process let in, and enlarges the grants by its cost.
func (s *Set) Admit(c Cost) (h Hold) {
	g := s.grants
	for k := range Axis(Axes) {
		g.amounts[k] += s.Amount(k, c)
	}
	g.traffic.Admitted++
	s.count(c, &h)
	s.limit() // the room is the call's, and nothing that was owed takes it
	return h
}

// expire drops grants that have expired, and reports whether it did.
func (s *Set) expire() bool {
	g := s.grants
	if g == nil || g.alone || g.until.IsZero() || s.now.Before(g.until) {
		return false
	}
	s.Drop()
	return true
}

// limit puts the usable amount of each limit in force.
func (s *Set) limit() {
	s.slots = s.usable(Concurrency)
	for k, a := range s.accounts {
		usable := s.usable(Axis(k))
		if a != nil {
			a.SetLimit(usable)
		}
	}
}

// usable is how much of a limit this process may use: its grant, or all of it if nobody shares it or
// nobody answers. Where there is no limit the grant is set to 0.
func (s *Set) usable(k Axis) int64 {
	g := s.grants
	limit := s.limits[k]
	if g == nil || g.alone {
		return limit
	}
	if limit == 0 {
		g.amounts[k] = 0
		g.others[k] = 0
	}
	return min(limit, g.amounts[k])
}

// elsewhere is the usage of other processes, as far as known.
func (s *Set) elsewhere(k Axis) int64 {
	if !s.Shared() {
		return 0
	}
	return s.grants.others[k]
}

// Coming reports whether a call lacks nothing but a grant: within the whole limits there is room for
// it and for all who wait in line.
func (s *Set) Coming(c Cost) bool {
	if !s.Shared() {
		return false
	}
	_, over := s.over(s.line.cost.Plus(c, 1), int64(len(s.line.places))+1)
	return !over
}

// noteBooked records the cost of a call, so that grants can be asked for ahead of the next ones.
func (s *Set) noteBooked(c Cost) {
	g := s.grants
	if g == nil {
		return
	}
	for k := range Axis(Axes) {
		g.last[k] = s.Amount(k, c)
		g.traffic.Taken[k] += g.last[k]
	}
}

// waitForOthers is how long it takes until a limit over time that others use as well has room for
// total, if nobody uses more in the meantime: until enough of the usage here and elsewhere has left
// it. It is a second at least.
func (s *Set) waitForOthers(k Axis, total int64) time.Duration {
	a := s.accounts[k]
	length := s.length[k]
	lack := s.Used(k) + total - s.limits[k]
	switch {
	case lack <= 0:
		return time.Second // others have grants that they do not use, and will be asked to give them back
	case !a.Ends().IsZero():
		return max(time.Second, a.Ends().Sub(s.now))
	case s.Drains(k): // all of them drain at the whole rate
		return max(time.Second, time.Duration(float64(length)*float64(lack)/float64(s.limits[k])))
	}
	debt := max(0, a.Used()-s.limits[k])
	best := length + time.Duration(float64(length)*float64(debt)/float64(s.limits[k]))
	last := s.now
	for i := 0; ; i++ {
		at := last
		known := true
		if lack > 0 {
			at, known = a.FreeAt(a.Room() + lack)
		}
		if known {
			best = min(best, max(at.Sub(s.now), last.Sub(s.now)))
		}
		if lack <= 0 || i >= len(s.grants.leaving[k]) {
			return max(time.Second, best)
		}
		h := s.grants.leaving[k][i]
		lack -= h.amount
		last = h.at.Add(length)
	}
}

// moved is when a call is told to come back for which a limit has room after some time: what leaves it elsewhere can be granted here GrantRetry later, and
// what drains leaves it in whole units, at each process by itself.
func (s *Set) moved(k Axis, wait time.Duration) time.Duration {
	switch a := s.accounts[k]; {
	case a.Limit() >= s.limits[k]: // all of it is here
		return wait
	case wait <= time.Second:
		return GrantRetry
	case s.elsewhere(k) > 0 && s.Drains(k):
		return wait + GrantRetry + s.length[k]/time.Duration(s.limits[k])
	case s.elsewhere(k) > 0 && a.Ends().IsZero():
		return wait + GrantRetry
	}
	return max(wait, GrantRetry)
}
