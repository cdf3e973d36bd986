package limits

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// Call is a call that asks for room.
type Call struct {
	Cost    Cost // not yet cut to the limits
	Via     Via
	Below   int // how far its priority is below the highest; of a team's calls those go first that are less far
	MaxWait time.Duration
	// Claim tells whether it was refused before. Keeps says that its place is kept if it is refused, and Back is how long it may wait
	// when it comes back as told.
	Claim escrow.Claim
	Keeps bool
	Back  time.Duration
}

// Verdict is the outcome of an offer.
type Verdict int

// The verdicts.
const (
	Admitted Verdict = iota + 1 // it is booked
	MayWait                     // it may Join the line
	Refused
)

// Answer is the answer to an offer.
type Answer struct {
	Verdict Verdict
	// Cost is the call's cost, cut to the limits.
	Cost Cost
	// Coming says that the call lacks nothing but a grant: within the whole limits there is room for
	// it and for all who wait.
	Coming bool
	// Lack is why the call does not go now.
	Lack Lack
	// Back says that it may wait for Call.Back, as it has come back when told. Kept says that its place is kept.
	Back, Kept bool
}

// Lack is the axis that keeps a call waiting, and how long until there is room, as far as can be
// known.
type Lack struct {
	Axis Axis
	Wait time.Duration
	// Full says that the line has no place for the call either, where so many calls wait already: all
	// together or, if OfTeam, those of the call's team.
	Full    bool
	OfTeam  bool
	Waiting int64
}

// Offer books a call, into hold, if it fits and nobody waits. If not, it says whether the call may wait in line.
func (s *Set) Offer(c Call, hold *Hold) Answer {
	cost := s.Clip(c.Cost)
	_, fits := s.Fits(cost)
	if fits && len(s.line.places) == 0 {
		s.book(cost, hold)
		s.forget(s.claimed(c.Claim))
		return Answer{Verdict: Admitted, Cost: cost}
	}
	return s.judge(cost, &c)
}

// judge decides whether a call that does not fit may wait in line. How long running calls will take is
// only a guess, so that refuses no call that is ready to wait.
func (s *Set) judge(cost Cost, c *Call) Answer {
	tag := s.line.tagBehind(c)
	n := s.claimed(c.Claim)
	away, calls := s.away(n)
	a := Answer{Verdict: MayWait, Cost: cost, Coming: s.Coming(cost), Lack: s.lack(cost, tag, away, calls)}
	s.FillLine(&a.Lack, c.Via)
	rolling := s.rollingWait(cost, tag)
	switch {
	case a.Lack.Full:
		a.Verdict = Refused
	case a.Coming:
		a.Back = c.Back > 0 && s.asTold(n)
	case c.MaxWait > 0 && rolling <= c.MaxWait:
	case c.Back > 0 && rolling <= c.Back && s.asTold(n):
		a.Back = true
	default:
		a.Verdict = Refused
	}
	return a
}

// FillLine says whether the line has a place for a call. Where several teams share a line, each may
// have at most as many calls in it as there are places left free, as in the pools, so that none can
// shut the others out.
func (s *Set) FillLine(l *Lack, via Via) {
	left := s.bound - len(s.line.places)
	has := s.line.teams[via.Team].calls
	switch {
	case left <= 0:
		l.Full = true
		l.Waiting = int64(len(s.line.places))
	case via.Shared && has >= left:
		l.Full = true
		l.OfTeam = true
		l.Waiting = int64(has)
	}
}

// Join puts a call into the line at a place, which keeps its Caller.
func (s *Set) Join(p *Place, c Call) {
	s.forget(s.claimed(c.Claim))
	p.asked = c.Cost
	p.cost = s.Clip(c.Cost)
	s.line.join(p, &c, s.part(p.cost))
}

// JoinAsking is Join for a call that goes only when another process lets it in.
func (s *Set) JoinAsking(p *Place, c Call) {
	p.asks = true
	s.Join(p, c)
}

// Take books the call at a place if it is the first in line and fits. The place is given up, and the
// next may fit, too; see Turn.
func (s *Set) Take(p *Place) (Hold, bool) {
	_, fits := s.Fits(p.cost)
	if !fits || s.line.first() != p {
		return Hold{}, false
	}
	h := s.Book(p.cost)
	s.line.leave(p, true)
	return h, true
}

// Quit gives up a place; served says that its call goes. Then whoever is first may fit; see Turn.
func (s *Set) Quit(p *Place, served bool) { s.line.leave(p, served) }

// Turn is the place of the call that has to look again whether it fits; nil if there is none.
func (s *Set) Turn() *Place { return s.line.turn() }

// InLine is how many calls wait, and their cost together.
func (s *Set) InLine() (calls int, cost Cost) { return len(s.line.places), s.line.cost }

// LookAgain is when the call at a place should look again whether it fits: if it is first, as soon as
// the limits over time can have room; otherwise somebody will tell it, and deadline is returned.
func (s *Set) LookAgain(p *Place, deadline time.Time) time.Time {
	if s.line.first() != p {
		return deadline
	}
	at, known := s.RoomAt(p.cost)
	if !known || at.After(deadline) {
		return deadline
	}
	return at
}

// RoomAt is when the limits over time can have room for a cost. It is not known when a hold is in the way, or when only
// a slot is lacking: the end of a call tells.
func (s *Set) RoomAt(c Cost) (at time.Time, known bool) {
	for k, a := range s.accounts {
		amount := s.Amount(Axis(k), c)
		if a == nil || a.Room() >= amount {
			continue
		}
		free, known := a.FreeAt(amount)
		if !known {
			return time.Time{}, false
		}
		if free.After(at) {
			at = free
		}
	}
	return at, !at.IsZero()
}
