package budget

import (
	"cmp"
	"slices"
	"time"
)

// CapState is the part of a Cap that survives a restart. Calls in flight are in Used
// with their holds: if nobody is left to settle them, that is the safe side.
type CapState struct {
	Start time.Time // of the period, UTC
	Used  int64
}

// State returns the books as of now.
func (b *Cap) State(now time.Time) CapState {
	b.advance(now)
	return CapState{Start: b.win.start.UTC(), Used: b.used}
}

// Restore puts a saved state in place of the books. If the state's period has
// ended by now the budget starts anew. If the clock was put back since, the
// budget stays in the state's period. A state that was saved under another
// period or zone counts if its period began within the present one.
func (b *Cap) Restore(now time.Time, st CapState) {
	b.advance(later(now, st.Start))
	b.used = 0
	if b.win.continues(st.Start) {
		b.used = min(max(0, st.Used), maxUsed)
	}
}

// SplitState is the part of a Split that survives a restart. Members who have not been
// heard of in this period or the last are not in it.
type SplitState struct {
	Start time.Time // of the period, UTC
	From  time.Time // of decay, UTC
	At    time.Time // when this was the state, UTC
	// Gone is the use by members that are gone and have no name here.
	Gone    int64
	Members []MemberState // by name
}

// MemberState is one member's part of a SplitState.
type MemberState struct {
	Name  string
	Asked bool // in this period; else in the last one
	Used  int64
	Idle  time.Duration // of the time for its share, that it let pass
}

// State returns the books as of now, those of members gone in this period
// included. O(N log N).
func (s *Split) State(now time.Time) SplitState {
	s.advance(now)
	st := SplitState{Start: s.win.start.UTC(), From: s.from.UTC(), At: s.win.now.UTC(), Gone: s.left}
	for i := range s.members {
		m := &s.members[i]
		if m.last < s.round-1 {
			continue
		}
		ms := s.memberState(m)
		if m.gone {
			st.Gone -= ms.Used
		}
		st.Members = append(st.Members, ms)
	}
	slices.SortFunc(st.Members, func(a, b MemberState) int { return cmp.Compare(a.Name, b.Name) })
	return st
}

// memberState is the state of a member who is present.
func (s *Split) memberState(m *member) MemberState {
	if m.last != s.round {
		return MemberState{Name: m.name}
	}
	return MemberState{Name: m.name, Asked: true, Used: m.used, Idle: time.Duration(m.idle) * time.Microsecond}
}

// Restore puts a saved state in place of the books, by the rules of
// Cap.Restore. Of a period that has ended, it is still known who asked.
//
// Members may be added before or after. One that was added before, and that the
// state does not name, was absent; one that is added afterwards is new.
func (s *Split) Restore(now time.Time, st SplitState) {
	s.advance(later(now, later(st.Start, st.At)))
	ended := !s.win.continues(st.Start)
	from := s.win.start
	if !ended && from.Before(st.From) && !st.From.After(s.win.now) {
		from = st.From
	}
	s.round += 2 // so everybody is absent
	s.quiet = 0
	s.open(from)

	anyAsked := slices.ContainsFunc(st.Members, func(m MemberState) bool { return m.Asked })
	for _, m := range st.Members {
		switch {
		case !ended:
			s.restoreMember(m)
		case m.Asked == anyAsked:
			s.restoreMember(MemberState{Name: m.Name})
		}
	}
	if !ended {
		gone := min(max(0, st.Gone), maxUsed-s.total)
		s.left += gone
		s.total += gone
	}
	// Positions follow from who else is there, and that is known now.
	for i := range s.members {
		if m := &s.members[i]; m.last == s.round && !m.gone {
			s.takeOut(int32(i))
			s.place(int32(i))
		}
	}
}

// restoreMember brings one member's books back, or keeps them for when it will
// be added. States come from files: whatever they say, the books must hold.
func (s *Split) restoreMember(st MemberState) {
	i, known := s.byName[st.Name]
	if !known {
		i, known = s.gone[st.Name]
		if !known {
			i = s.slot(st.Name)
			s.gone[st.Name] = i
			s.members[i].gone = true
		}
	}
	m := &s.members[i]
	if m.last >= s.round-1 {
		return // there twice
	}
	if !st.Asked {
		m.last = s.round - 1
		s.quiet += m.weight
		return
	}
	m.last = s.round
	m.away = 0
	m.used = min(max(0, st.Used), maxUsed-s.total)
	m.idle = min(max(0, int64(st.Idle/time.Microsecond)), s.asked.span)
	s.total += m.used
	if m.gone {
		s.left += m.used
		return
	}
	s.place(i)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
