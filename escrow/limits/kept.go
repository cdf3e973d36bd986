package limits

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// The place of a refused call is kept, as in the pools (package escrow): who is refused later is told a later time, and who comes back when
// told may wait in line for Call.Back, whatever its MaxWait is. So nobody starves beside callers that ask more often. A place holds
// nothing of the limits.

// overdue is how long after its turn somebody may still come who was told the turn in whole seconds.
const overdue = time.Second + time.Second/4

// kept is a kept place.
type kept struct {
	key       uint64    // Claim.Key, 0 for none
	counts    bool      // its caller counts its retries
	turn, due time.Time // when its call's turn comes, and from when on it has come as told
	cost      Cost
}

// claimed is the index of the place to which a call comes back; -1 if it has none.
func (s *Set) claimed(c escrow.Claim) int {
	if c.Key != 0 {
		n := slices.IndexFunc(s.kept, func(k kept) bool { return k.key == c.Key })
		if n >= 0 || c.Retry == escrow.RetryUnknown {
			return n
		}
	}
	if c.Retry == escrow.RetryFirst {
		return -1
	}
	counts := c.Retry == escrow.RetryAgain // else it may be a newcomer, who takes the place of none that would say so, nor one that is overdue
	return slices.IndexFunc(s.kept, func(k kept) bool {
		return k.key == 0 && k.counts == counts && !s.now.Before(k.due) && (counts || s.now.Sub(k.turn) <= overdue)
	})
}

// asTold reports whether a call has come back when it was told.
func (s *Set) asTold(n int) bool { return n >= 0 && !s.now.Before(s.kept[n].due) }

// forget gives up a place, if there is one.
func (s *Set) forget(n int) {
	if n >= 0 {
		s.kept = slices.Delete(s.kept, n, n+1)
	}
}

// away is the cost and number of the calls whose turns are before that of place n, or of all if n is -1.
func (s *Set) away(n int) (cost Cost, calls int64) {
	for i := range s.kept {
		if i == n {
			break
		}
		cost = cost.Plus(s.kept[i].cost, 1)
		calls++
	}
	return cost, calls
}

// Keep keeps the place of a call that was refused, if there is room, and notes that in its answer.
func (s *Set) Keep(c Call, a *Answer) {
	n := s.claimed(c.Claim)
	switch {
	case n >= 0:
	case !c.Keeps || a.Lack.Full || a.Lack.Axis == Budget || a.Lack.Wait > c.Claim.Reach() || len(s.kept) >= s.bound:
		return
	default:
		turn := s.now.Add(a.Lack.Wait)
		n, _ = slices.BinarySearchFunc(s.kept, turn, func(k kept, at time.Time) int {
			if k.turn.After(at) {
				return 1
			}
			return -1 // behind those of the same time
		})
		s.kept = slices.Insert(s.kept, n, kept{key: c.Claim.Key, counts: c.Claim.Retry != escrow.RetryUnknown, turn: turn, cost: a.Cost})
	}
	_, due := escrow.Told(a.Lack.Wait)
	s.kept[n].due = s.now.Add(due)
	a.Kept = true
}

// KeepsPlaces reports whether there are places for callers that may come back.
func (s *Set) KeepsPlaces() bool { return len(s.kept) > 0 }

// returning is the cost and number of the calls whose callers come back within a second to their turn, or are awaited. Who comes long before it is only told
// the rest.
func (s *Set) returning() (cost Cost, calls int64) {
	for _, k := range s.kept {
		early := max(k.due.Sub(s.now), k.turn.Sub(s.now))
		if early <= time.Second && s.now.Sub(k.turn) <= overdue {
			cost = cost.Plus(k.cost, 1)
			calls++
		}
	}
	return cost, calls
}

// expireKept gives up the places for which nobody has come.
func (s *Set) expireKept() {
	for len(s.kept) > 0 && s.now.Sub(s.kept[0].turn) >= escrow.TicketGrace {
		s.forget(0)
	}
}
