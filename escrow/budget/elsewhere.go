package budget

import "time"

// news is the age up to which news of use is taken to be of now: two beats, as the use of all and that of
// each member may come in one beat and the next.
const news = 2 * time.Second

// Elsewhere sets the use of a member in other processes in this period, instead of the amount that was
// said of that before. It counts as if it had been used here.
func (s *Split) Elsewhere(now time.Time, id MemberID, amount int64) {
	s.advance(now)
	if i, ok := s.find(id); ok && !s.members[i].gone {
		s.setAway(i, amount)
	}
}

// setAway changes the part of a member's use elsewhere that counts. The change is taken to have
// happened just now, if a moment ago all use elsewhere was known to be members' own. Else nobody knows
// when it happened, as of a member that was gone: it is then taken to have let no more pass than it is
// behind with everything that it used.
func (s *Split) setAway(i int32, amount int64) {
	m := &s.members[i]
	was := int64(0)
	if m.last == s.round {
		was = m.away
	}
	amount = max(0, amount)
	if amount == was {
		return
	}
	back := min(s.rest, max(0, amount-was))
	s.setRest(s.rest - back)
	d := min(amount, maxUsed-(s.total-was)) - was
	if s.win.now.Sub(s.known) <= news {
		s.lift(i)
	} else {
		s.takeOut(i)
		s.enter(m)
	}
	m.used = m.used + d
	m.away = m.away + d
	s.total = s.total + d
	s.away = s.away + d
	m.idle = max(m.idle, s.clock()-s.spent(m))
	s.place(i)
}

// setRest changes the use elsewhere by members that are gone.
func (s *Split) setRest(rest int64) {
	d := min(max(0, rest), maxUsed-(s.total-s.rest)) - s.rest
	s.total = s.total + d
	s.left = s.left + d
	s.away = s.away + d
	s.rest = s.rest + d
}

// ElsewhereInAll sets the use in other processes in all. The part beyond that of the members
// that are here was used by those who are gone.
func (s *Split) ElsewhereInAll(now time.Time, amount int64) {
	s.advance(now)
	s.setRest(amount - (s.away - s.rest))
	if s.rest == 0 {
		s.known = s.win.now
	}
}

// Counted is Used as of the last look.
func (s *Split) Counted() int64 { return s.total }

// Here is the part of Counted that was used in this process.
func (s *Split) Here() int64 { return s.total - s.away }

// HereBy is the use of a member in this process.
func (s *Split) HereBy(now time.Time, id MemberID) int64 {
	s.advance(now)
	if i, ok := s.find(id); ok && s.members[i].last == s.round {
		return s.members[i].used - s.members[i].away
	}
	return 0
}

// Room is the most that a call of a member might take now.
func (s *Split) Room(now time.Time, id MemberID) int64 {
	s.advance(now)
	i, ok := s.find(id)
	if !ok || s.members[i].gone {
		return 0
	}
	s.lift(i)
	defer s.place(i)
	return s.room(&s.members[i])
}

// Name is a member's.
func (s *Split) Name(id MemberID) string {
	if i, ok := s.find(id); ok {
		return s.members[i].name
	}
	return ""
}

// Member is the member of a name, or one gone in this period; the zero MemberID if there is none.
func (s *Split) Member(name string) MemberID {
	i, ok := s.byName[name]
	if !ok {
		i, ok = s.gone[name]
	}
	if !ok {
		return MemberID{}
	}
	return MemberID{slot: i, gen: s.members[i].gen}
}

// OnlyHere forgets the use in other processes.
func (s *Split) OnlyHere(now time.Time) {
	s.advance(now)
	for i := range s.members {
		if m := &s.members[i]; m.last == s.round && !m.gone {
			s.setAway(int32(i), 0)
		}
	}
	s.setRest(0)
	s.known = time.Time{}
}
