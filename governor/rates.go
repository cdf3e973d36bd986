package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// rates are the grants of a pool's limits on tokens and requests, if these are shared.
type rates struct {
	era       int                   // counts up with other limits of the policy, of which a grant on its way knows nothing
	allowed   [len(pairs)]time.Time // when the allowances last granted began
	levels    [len(pairs)]float64   // PoolGrant.Level
	elsewhere [len(pairs)]elsewhere
	// learning is until when nothing will be granted, and learned is when that was last said.
	learning, learned time.Time
	// forgot says that those who grant nothing had data before.
	forgot bool
	// alone says that nobody answers.
	alone bool
	// aloneUntil is until when allowances that the pool gave itself are in force.
	aloneUntil [len(pairs)]time.Time
	// unanswered is when the last call that asked the store got no answer; zero if it got one.
	unanswered time.Time
	// nodes is how many nodes there were when that was last known.
	nodes int
}

// pairs are the axes of which other processes keep one account together.
var pairs = [...][2]escrow.Axis{{escrow.Tokens, escrow.Requests}, {escrow.Input, escrow.Output}}

// amounts are those of a pair in a cost.
func amounts(pair int, c escrow.Cost) [2]int64 { return [2]int64{c[pairs[pair][0]], c[pairs[pair][1]]} }

// rated reports whether the pool has a limit on one of a pair.
func (p *pool) rated(pair int) bool { return amounts(pair, p.set.Minute()) != [2]int64{} }

// fresh reports whether nothing is known yet: of some limits there was no grant so far, and nobody has failed to answer.
func (p *pool) fresh() bool {
	for i, allowed := range p.rates.allowed {
		if p.rated(i) && allowed.IsZero() {
			return !p.rates.alone
		}
	}
	return false
}

// learns reports whether those who share the limits out answer, and grant nothing yet because they do not
// know earlier usage.
func (p *pool) learns(now time.Time) bool {
	return now.Before(p.rates.learning) && now.Sub(p.rates.learned) < GrantLasts
}

// elsewhere is how much of a pair of a pool's rolling minutes other processes have used, as of the last beat.
type elsewhere struct {
	used [2]int64
	at   time.Time
}

// books is the state of the pool's books with the usage of other processes. Without a beat
// for a minute, that has left the minute.
func (p *pool) books(now time.Time) escrow.State {
	s := p.escrow.State(now)
	for i, e := range p.rates.elsewhere {
		gone := e.at.Add(escrow.Window)
		if !p.set.Shared || !now.Before(gone) {
			continue
		}
		for k, used := range e.used {
			if a := &s.Axes[pairs[i][k]]; used > 0 && a.On {
				a.Used += used
				a.FullAt = later(a.FullAt, gone)
			}
		}
	}
	return s
}
