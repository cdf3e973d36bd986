package sharing

import (
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/governor"
)

// Beyond present usage and waiting calls, claims ask for the cost of aheadSeconds at the present rate, and
// for no less than the cost of the last call. docs/federation-protocol.md compares this with other rules.
const aheadSeconds = 3

// A process asks for at least 1/capShare of the rest of a budget beyond what is used, and for 1/capMost at most beyond what its waiting calls need: a grant
// is lost until the end of the period if its process dies.
const (
	capShare = 256
	capMost  = 16
)

// Limits speaks for one tenant's own limits and budgets. It is for one goroutine.
type Limits struct {
	own    *governor.SharedLimits
	claims []parts.Claim    // as last made
	known  map[string]known // by a limit's name, how much the store believes is used here
	more   []int64          // of each claim, what calls may take beyond what is used, if parts last

	told limits.Traffic       // as of the last claims
	at   time.Time            // when the last claims were made
	rate [limits.Axes]float64 // cost of calls in a second, smoothed
}

var (
	_ runner.AskedLimits   = (*Limits)(nil)
	_ runner.LastingLimits = (*Limits)(nil)
)

// Parts that last are for what calls of lastSeconds take, and two calls at least, if that is no more than 1/lastShare of a limit, and 1/lastAll with
// what is used: that is lost to others for so long if the process dies. Of a period it is lost to the end, so it is 1/lastPeriod at most beside what
// is used.
const (
	lastSeconds = 15
	lastShare   = 4
	lastAll     = 2
	lastPeriod  = 64
)

// known is how much the store believes is used of a limit, in units of scale.
type known struct{ used, scale int64 }

// Owner names the limits to other processes.
func (l *Limits) Owner() string { return l.own.Owner() }

// Asks reports whether there are calls that ask before they go by these limits.
func (l *Limits) Asks() bool { return l.own.Asks() }

// Claims states usage and demand, but not grants: the caller knows these. busy says that calls run or wait, or that some came or were refused since the last claims.
func (l *Limits) Claims(now time.Time) (claims []parts.Claim, busy bool) {
	return l.claim(now, l.own.Claim(now))
}

// GiveUp is Claims, and gives up all unused grants.
func (l *Limits) GiveUp(now time.Time) []parts.Claim {
	claims, _ := l.claim(now, l.own.GiveUp(now))
	return claims
}

func (l *Limits) claim(now time.Time, d governor.LimitsDemand) (claims []parts.Claim, busy bool) {
	lacks := d.Lacks || d.InLine > 0
	busy = d.Running > 0 || lacks || d.Traffic != l.told || d.Refuses
	l.smooth(now, d.Traffic)
	l.claims = make([]parts.Claim, 0, len(l.claims)) // the last ones may still be in transit
	l.known = map[string]known{}
	l.more = l.more[:0]
	ahead := busy && d.Granted
	for k, axis := range d.Axes {
		if axis.Limit > 0 {
			l.add(l.claimAxis(limits.Axis(k), axis, ahead, busy), axis.Used, 1)
			l.more = append(l.more, l.moreOf(limits.Axis(k), axis.Last))
		}
	}
	waiting := d.Axes[limits.Concurrency].Waiting
	coming := l.rate[limits.Concurrency] * aheadSeconds
	for i := range d.Budgets {
		b := &d.Budgets[i]
		l.add(claimBudget(b, ahead, lacks && d.Granted, waiting, coming), b.Used, b.Scale)
		l.more = append(l.more, max(2*b.Last, int64(l.rate[limits.Concurrency]*lastSeconds*float64(b.Last)))*b.Scale)
	}
	return l.claims, busy
}

// Last makes the last claims ask for parts that last.
func (l *Limits) Last(claims []parts.Claim) bool {
	if !l.own.OfTenant() || l.own.Asks() {
		return false
	}
	for i := range claims {
		c := &claims[i]
		most := min(c.Used+c.Limit/lastShare, c.Limit/lastAll)
		if c.Kind == parts.Period {
			most = c.Used + c.Limit/lastPeriod
		}
		if c.Need > 0 || c.Spare > 0 || max(c.Want, c.Used+l.more[i]) > most {
			return false
		}
	}
	for i := range claims {
		c := &claims[i]
		c.Want = min(c.Limit, max(c.Want, c.Used+l.more[i]))
	}
	return true
}

// moreOf is what calls take of an axis while parts last, where the last one took so much. Of slots that is what they take at once.
func (l *Limits) moreOf(k limits.Axis, last int64) int64 {
	if k == limits.Concurrency {
		return 1 + int64(l.rate[k]*aheadSeconds)
	}
	return max(2*last, int64(l.rate[k]*lastSeconds))
}

// Keep says until when the parts may be used, as long as there is a sign of life.
func (l *Limits) Keep(until time.Time, sign int) { l.own.Keep(until, sign) }

// Stirred reports whether calls have come since the last claims.
func (l *Limits) Stirred() bool { return l.own.Traffic() != l.told }

func (l *Limits) add(c parts.Claim, used, scale int64) {
	l.claims = append(l.claims, c)
	l.known[c.Name] = known{used, scale}
}

// smooth learns the cost of calls in a second from those since the last claims.
func (l *Limits) smooth(now time.Time, t limits.Traffic) {
	dt := now.Sub(l.at).Seconds()
	if !l.at.IsZero() && dt > 0 {
		for k, n := range t.Taken {
			rate := float64(n-l.told.Taken[k]) / dt
			l.rate[k] += (rate - l.rate[k]) * min(1, dt/aheadSeconds)
		}
	}
	l.told = t
	l.at = now
}

// claimAxis is the claim on one limit. ahead asks for more in advance.
func (l *Limits) claimAxis(k limits.Axis, d limits.Demand, ahead, busy bool) parts.Claim {
	c := parts.Claim{Name: d.Name, Kind: parts.Rolling, Limit: d.Limit, Used: d.Used, Want: d.Used + d.Waiting}
	switch {
	case k == limits.Concurrency:
		c.Kind = parts.Slots
	case !d.Ends.IsZero():
		c.Kind = parts.Period
		c.Ends = d.Ends.UnixMilli()
	case d.Length != parts.Window:
		c.Tail = d.Length.Milliseconds()
	}
	if ahead {
		c.Want += max(d.Last, int64(l.rate[k]*aheadSeconds))
	}
	if d.Queued {
		c.Need = d.Used + d.First
	}
	c.Want = min(d.Limit, max(c.Want, c.Need))
	if d.Drains && (busy || d.Used > 0) { // it drains at the part of its rate that is granted
		c.Spare = max(0, d.Limit-max(c.Want, c.Used))
		c.Want += c.Spare
	}
	return c
}

// claimBudget is the claim on a budget. ahead asks for the calls that wait, and for so many coming ones in advance, and lacks says
// that a call waits or was refused.
func claimBudget(b *governor.BudgetDemand, ahead, lacks bool, waiting int64, coming float64) parts.Claim {
	need := int64(0)
	want := b.Used
	if ahead {
		rest := b.Limit - b.Used - b.Others
		advance := min(int64(coming*float64(b.Last)), rest/capMost)
		want += max(b.Last, waiting*b.Last+advance, rest/capShare)
	}
	if lacks && b.Lacks {
		need = b.Used + max(1, b.Last)
	}
	want = min(b.Limit, max(want, need))
	return parts.Claim{
		Name: b.Name, Kind: parts.Period, Limit: b.Budget.Limit, Ends: b.Ends.UnixMilli(),
		Used: b.Used * b.Scale, Held: min(b.Used, b.Pending) * b.Scale, Want: want * b.Scale, Need: need * b.Scale,
	}
}

// letIn notes that the store now believes that so much more of a limit is used here.
func (l *Limits) letIn(name string, amount int64) {
	k, ok := l.known[name]
	if ok {
		k.used += (amount + k.scale - 1) / k.scale
		l.known[name] = k
	}
}

// Gives reports whether less is used here than the store believes, so that others could have the
// difference.
func (l *Limits) Gives(now time.Time) bool {
	if !l.own.Asks() {
		return false
	}
	d := l.own.Demand(now)
	if !d.Spoken {
		return false
	}
	for _, axis := range d.Axes {
		if axis.Limit > 0 && axis.Used < l.known[axis.Name].used {
			return true
		}
	}
	for _, b := range d.Budgets {
		if b.Used < l.known[b.Name].used {
			return true
		}
	}
	return false
}

// Apply puts in force the answer to the last claims, which holds until the given time.
func (l *Limits) Apply(now, until time.Time, list []parts.Part) {
	grants := make([]governor.Grant, 0, len(list))
	for i, p := range list[:min(len(list), len(l.claims))] {
		grants = append(grants, governor.Grant{Name: l.claims[i].Name, Amount: p.Part, Others: p.Others, Held: p.Held})
	}
	l.own.Allow(now, until, grants)
}

// Alone says that nobody answers. Once the grants have expired, and until Apply, this process counts by
// itself against the whole limits; if the store cannot read them, only where all pools are open on loss.
func (l *Limits) Alone(now time.Time, unreadable bool) { l.own.Alone(now, unreadable) }

// Recalls reports whether earlier processes used something that counts now.
func (l *Limits) Recalls(now time.Time) bool { return l.own.Recalls(now) }

// Recall has it count as used here.
func (l *Limits) Recall(now time.Time) { l.own.Recall(now) }

// Rest reports whether nobody needs to speak for the limits until Limits returns them again: no call
// runs or waits, and nothing worth mentioning is used, but for long windows, which use leaves slowly. All grants are then given up.
func (l *Limits) Rest(now time.Time) bool {
	d := l.own.Demand(now)
	for k := range limits.Concurrency {
		axis := d.Axes[k]
		if axis.Limit > 0 && axis.Ends.IsZero() && axis.Length <= parts.Window && !parts.Crumb(axis.Used, axis.Limit) {
			return false
		}
		if axis.Drains && axis.Used > 0 || axis.Used > axis.Limit {
			return false // it drains only while a part is granted, as debt does
		}
	}
	return l.own.Rest(now, l.told)
}
