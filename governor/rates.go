package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// rates are the grants of a pool's limits on tokens and requests, if these are shared. The pool's lock
// guards them.
type rates struct {
	era       int       // counts up when reports begin to count anew
	allowed   time.Time // when the allowances last granted began
	elsewhere elsewhere
	// learning is until when nothing will be granted, and learned is when that was last said.
	learning, learned time.Time
	// forgot says that those who grant nothing had data before.
	forgot bool
	// alone says that nobody answers.
	alone bool
	// aloneUntil is until when allowances that the pool gave itself are in force.
	aloneUntil time.Time
	// unanswered is when the last call that asked the store got no answer; zero if it got one.
	unanswered time.Time
	// nodes is how many nodes there were when that was last known.
	nodes int
}

// fresh reports whether nothing is known yet: there was no grant so far, and nobody has failed to answer.
func (r *rates) fresh() bool { return r.allowed.IsZero() && !r.alone }

// learnsLocked reports whether those who share the limits out answer, and grant nothing yet because they do not
// know earlier usage.
func (p *pool) learnsLocked(now time.Time) bool {
	return now.Before(p.rates.learning) && now.Sub(p.rates.learned) < GrantLasts
}

// elsewhere is how much of a pool's rolling minute other processes have used, as of the last beat.
type elsewhere struct {
	used escrow.Cost
	at   time.Time
}

// booksLocked is the state of the pool's books with the usage of other processes. Without a beat
// for a minute, that has left the minute.
func (p *pool) booksLocked(now time.Time) escrow.State {
	s := p.escrow.State(now)
	gone := p.rates.elsewhere.at.Add(escrow.Window)
	if !p.set.Shared || !now.Before(gone) {
		return s
	}
	for k, used := range p.rates.elsewhere.used {
		if used > 0 && s.Axes[k].On {
			s.Axes[k].Used += used
			s.Axes[k].FullAt = later(s.Axes[k].FullAt, gone)
		}
	}
	return s
}
