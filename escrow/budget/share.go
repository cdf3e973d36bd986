package budget

import "time"

// clock is the present as shares see it: µs of the window that have passed, or
// 0 for ever if shares do not decay.
func (s *Split) clock() int64 {
	if s.cfg.NoDecay {
		return 0
	}
	return int64(s.win.now.Sub(s.from) / time.Microsecond)
}

// base is the amount that the members present share: the limit, less the use by those who
// are gone.
func (s *Split) base() int64 { return max(0, s.cfg.Limit-s.left) }

// weights is the sum of the weights of the members present.
func (s *Split) weights() int64 { return s.asked.weight() + s.quiet }

// spent is how many µs of the window m's use is worth, at the rate at which
// its share would just last. It stops at the whole window. m must be lifted.
func (s *Split) spent(m *member) int64 {
	used := mul(m.used, s.weights()+m.weight)
	share := mul(s.base(), m.weight)
	if !used.less(share) {
		return s.asked.span
	}
	return used.times(s.asked.span).over(s.base()).over(m.weight).int()
}

// takeOut takes a member out of the sums over who is present.
func (s *Split) takeOut(i int32) {
	m := &s.members[i]
	switch {
	case m.gone:
	case m.last == s.round:
		s.asked.remove(i)
	case m.last == s.round-1:
		s.quiet -= m.weight
	}
}

// lift takes out a member that acts, so that the sums are those of the others,
// and brings its books up to now. Between lift and place they may be changed.
//
// A member behind the present has let that time pass. This is recorded, because
// the part of a share that time took back must stay gone when the member starts
// to use the rest: else it could collect the same part again and again, and the
// second time it would be another's.
func (s *Split) lift(i int32) {
	s.takeOut(i)
	m := &s.members[i]
	s.enter(m)
	m.idle = max(m.idle, s.clock()-s.spent(m))
}

// enter begins a member's books of the period, if it has none.
func (s *Split) enter(m *member) {
	if m.last != s.round {
		m.last = s.round
		m.used = 0
		m.idle = 0
		m.away = 0
	}
}

// place puts a member that has asked back among the others, at its position.
func (s *Split) place(i int32) {
	m := &s.members[i]
	s.asked.insert(i, s.position(m), m.weight)
}

// position is how far m, lifted, is in its share: what it let pass and what it
// used, in µs of the window.
func (s *Split) position(m *member) int64 { return min(s.asked.span, m.idle+s.spent(m)) }

// room is the most that m, lifted, may take now: of its own share, or of the part that
// is reserved for nobody.
func (s *Split) room(m *member) int64 {
	free := s.cfg.Limit - s.total
	return max(0, min(free, max(s.claim(m), free-s.reserved(m))))
}

// claim is the reserve for m, lifted: of its share, the part that belongs
// to the time after its position. Rounded down.
func (s *Split) claim(m *member) int64 {
	unspent := mul(m.weight, s.asked.span-s.position(m))
	return unspent.times(s.base()).over(s.weights() + m.weight).over(s.asked.span).int()
}

// reserved is the sum of the claims of all but m, lifted. Rounded up, once.
func (s *Split) reserved(m *member) int64 {
	unspent := s.asked.unspent(s.clock(), s.quiet)
	return unspent.times(s.base()).overUp(s.weights() + m.weight).overUp(s.asked.span).int()
}

// retryAt is when the decay of the others' shares will have left room for c of
// m, lifted, who was refused; its own share does not grow.
func (s *Split) retryAt(m *member, c int64) time.Time {
	free := s.cfg.Limit - s.total
	switch {
	case c > s.cfg.Limit:
		return time.Time{}
	case c > free || s.cfg.NoDecay:
		return s.win.end
	}
	// c ≤ free - reserved, solved for unspent. The base is not 0, or nothing
	// would be free.
	want := mul(free-c, s.weights()+m.weight).times(s.asked.span).over(s.base())
	at := s.asked.earliest(s.quiet, want)
	return s.from.Add(time.Duration(at) * time.Microsecond)
}

// advance moves to now. When a period ends, who asked in it is present in the
// next one, still quiet. After a period in which nobody asked it is still known
// who asked in the one before. Members' own books are reset when they ask, so
// this is O(1), and O(those removed in the period).
func (s *Split) advance(now time.Time) {
	first := s.win.end.IsZero()
	if !s.win.advance(now) {
		return
	}
	if s.asked.root != none {
		s.quiet = s.asked.weight()
		s.round++
	}
	from := s.win.start
	if first {
		from = s.win.now // before that nobody could ask, and nobody let time pass
	}
	s.open(from)
}

// open begins the current period's books, with decay counted from the given
// time in it, and everything at 0.
func (s *Split) open(from time.Time) {
	s.from = from.Truncate(time.Microsecond)
	s.asked.reset(int64(s.win.end.Sub(s.from) / time.Microsecond))
	s.total = 0
	s.left = 0
	s.away = 0
	s.rest = 0
	for _, i := range s.gone {
		s.members[i] = member{gen: s.members[i].gen + 1}
		s.free = append(s.free, i)
	}
	clear(s.gone)
}

// find is the slot that id names, of a member or of one gone in this period.
func (s *Split) find(id MemberID) (int32, bool) {
	return id.slot, int(id.slot) < len(s.members) && s.members[id.slot].gen == id.gen
}

// slot is an empty slot, for a name that has none.
func (s *Split) slot(name string) int32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		s.members[i].name = name
		return i
	}
	s.members = append(s.members, member{name: name, gen: 1})
	return int32(len(s.members) - 1)
}

// weigh checks a weight that comes in place of old.
func (s *Split) weigh(weight, old int64) int64 {
	if weight < 1 || weight > MaxWeight || weight-old > MaxWeights-s.sum {
		panic("budget: BUG: a weight, or the sum of all, is out of range: the policy must be validated")
	}
	s.sum += weight - old
	return weight
}
