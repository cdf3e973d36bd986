package sharing

import (
	"slices"
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
	own     *governor.SharedLimits
	claimed []limits.Demand // as last made claims of, with Used as the store believes it

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
	busy = d.Busy || d.Traffic != l.told
	l.smooth(now, d.Traffic)
	l.claimed = d.Parts
	claims = make([]parts.Claim, len(d.Parts))
	for i := range d.Parts {
		p := &d.Parts[i]
		ahead := int64(0)
		if busy && d.Granted {
			ahead = l.ahead(p)
		}
		c := claimOf(p, ahead)
		if p.Drains && (busy || p.Used > 0) { // it drains at the part of its rate that is granted
			c.Spare = max(0, p.Limit-max(c.Want, c.Used))
			c.Want += c.Spare
		}
		claims[i] = c
	}
	return claims, busy
}

// ahead is how much of a limit is asked for in advance, beyond what is used and what calls wait for.
func (l *Limits) ahead(d *limits.Demand) int64 {
	coming := l.comingIn(d, aheadSeconds)
	if d.Axis == limits.Budget {
		return max(d.Last, d.Waiting+min(coming, d.Left/capMost), d.Left/capShare) - d.Waiting
	}
	return max(d.Last, coming)
}

// comingIn is how much of a limit calls take in so many seconds.
func (l *Limits) comingIn(d *limits.Demand, seconds float64) int64 {
	if d.Axis == limits.Budget {
		return int64(l.rate[limits.Concurrency] * seconds * float64(d.Last))
	}
	return int64(l.rate[d.Axis] * seconds)
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
		if c.Need > 0 || c.Spare > 0 || max(c.Want, c.Used+l.moreOf(i)) > most {
			return false
		}
	}
	for i := range claims {
		c := &claims[i]
		c.Want = min(c.Limit, max(c.Want, c.Used+l.moreOf(i)))
	}
	return true
}

// moreOf is what calls may take beyond what is used while the i-th part lasts. Of slots that is what they take at once.
func (l *Limits) moreOf(i int) int64 {
	d := &l.claimed[i]
	if d.Axis == limits.Concurrency {
		return 1 + l.comingIn(d, aheadSeconds)
	}
	return max(2*d.Last, l.comingIn(d, lastSeconds))
}

// Keep says until when the parts may be used, as long as there is a sign of life.
func (l *Limits) Keep(until time.Time, sign int) { l.own.Keep(until, sign) }

// Stirred reports whether calls have come since the last claims.
func (l *Limits) Stirred() bool { return l.own.Traffic() != l.told }

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

// letIn notes that the store now believes that so much more of a limit is used here.
func (l *Limits) letIn(name string, amount int64) {
	for i := range l.claimed {
		if p := &l.claimed[i]; p.Name == name {
			p.Used += amount
		}
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
	return slices.ContainsFunc(d.Parts, func(p limits.Demand) bool {
		less := func(told limits.Demand) bool { return told.Name == p.Name && p.Used < told.Used }
		return slices.ContainsFunc(l.claimed, less)
	})
}

// Apply puts in force the answer to the last claims, which holds until the given time.
func (l *Limits) Apply(now, until time.Time, list []parts.Part) {
	l.own.Allow(now, until, grantsOf(l.claimed, list))
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
	for _, p := range d.Parts {
		if p.Axis >= limits.Concurrency {
			continue
		}
		if p.Ends.IsZero() && p.Length <= parts.Window && !parts.Crumb(p.Used, p.Limit) {
			return false
		}
		if p.Drains && p.Used > 0 || p.Used > p.Limit {
			return false // it drains only while a part is granted, as debt does
		}
	}
	return l.own.Rest(now, l.told)
}
