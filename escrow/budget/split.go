package budget

import (
	"maps"
	"slices"
	"time"
)

const (
	// MaxWeight is the largest weight of a member, and 1 the least. Weights are whole, and count against each other alone.
	MaxWeight = int64(1_000_000_000)

	// MaxWeights is the largest sum of the weights of a Split.
	MaxWeights = int64(1) << 43
)

// Config describes a Split.
type Config struct {
	// Limit is the most that all members together may use in a period; 0 admits nothing.
	Limit int64
	// Period is the length of the window on the calendar of Zone (nil: UTC).
	Period Period
	Zone   *time.Location
	// NoDecay keeps every share for its member to the end of the period, used
	// or not. It strands the parts of quiet members; see the package comment.
	NoDecay bool
}

// MemberID names a member of a Split. A removed member's is not used again for
// another one.
type MemberID struct {
	slot int32
	gen  uint32 // from 1, so that the zero MemberID is nobody's
}

// Split is a budget that members share by weight: a decaying escrow. See the
// package comment for the rule.
//
// A Split is not safe for concurrent use.
type Split struct {
	cfg  Config
	win  window
	from time.Time // the beginning of decay: start, or the first word if later

	total int64     // used by all, those gone included; at most the limit while calls take what they hold
	left  int64     // part of total that was used by who is gone since
	away  int64     // part of total that was used in other processes: see Elsewhere
	rest  int64     // part of left that was
	known time.Time // when rest was last told to be 0
	round int64     // counts the periods in which anybody asked, from 2

	members []member
	free    []int32          // slots of who was removed in an earlier period
	byName  map[string]int32 // of members
	gone    map[string]int32 // of who was removed in this period, or is known from Restore only
	sum     int64            // weights of all members, present or not

	asked tree  // who asked in this period, by position
	quiet int64 // weights of who is present but has not asked
}

type member struct {
	name   string
	gen    uint32
	gone   bool
	weight int64
	last   int64 // the round in which it asked last; one below the current one: present, but quiet
	// Books of the round in which it asked last.
	used int64
	idle int64 // µs of the window that it let pass while it was behind
	away int64 // of used, in other processes
}

// NewSplit returns an untouched budget without members.
func NewSplit(cfg Config) *Split {
	cfg.Limit = clampLimit(cfg.Limit)
	s := &Split{
		cfg:    cfg,
		win:    window{period: cfg.Period, loc: cfg.Zone},
		round:  2,
		byName: map[string]int32{},
		gone:   map[string]int32{},
	}
	s.asked.reset(1)
	return s
}

// Clone copies a budget with its books. The copy's members have the same MemberIDs.
func (s *Split) Clone() *Split {
	c := *s
	c.members = slices.Clone(s.members)
	c.free = slices.Clone(s.free)
	c.byName = maps.Clone(s.byName)
	c.gone = maps.Clone(s.gone)
	c.asked.nodes = slices.Clone(s.asked.nodes)
	return &c
}

// Add adds a member of the given weight. It counts as present
// until it has been silent for a whole period. A name that was removed in this
// period, or is known from Restore, gets its books back; a name that is a member
// already only gets the weight.
func (s *Split) Add(now time.Time, name string, weight int64) MemberID {
	s.advance(now)
	if i, ok := s.byName[name]; ok {
		id := MemberID{slot: i, gen: s.members[i].gen}
		s.SetWeight(now, id, weight)
		return id
	}
	weight = s.weigh(weight, 0)
	i, known := s.gone[name]
	if known {
		delete(s.gone, name)
	} else {
		i = s.slot(name)
	}
	s.byName[name] = i
	m := &s.members[i]
	m.weight = weight
	m.gone = false
	if m.last == s.round {
		s.left -= m.used
		s.place(i)
	} else {
		m.last = s.round - 1
		s.quiet += weight
	}
	return MemberID{slot: i, gen: m.gen}
}

// SetWeight changes a member's weight, from now on.
func (s *Split) SetWeight(now time.Time, id MemberID, weight int64) {
	s.advance(now)
	i, ok := s.find(id)
	if !ok || s.members[i].gone {
		return
	}
	m := &s.members[i]
	weight = s.weigh(weight, m.weight)
	s.takeOut(i)
	m.weight = weight
	switch m.last {
	case s.round:
		s.place(i)
	case s.round - 1:
		s.quiet += weight
	}
}

// Remove takes a member out. Its use stays counted to the end of the
// period, or the others could use it for a second time; what it has not used of
// its share is theirs.
func (s *Split) Remove(now time.Time, id MemberID) {
	s.advance(now)
	i, ok := s.find(id)
	if !ok || s.members[i].gone {
		return
	}
	s.takeOut(i)
	m := &s.members[i]
	if m.last == s.round {
		s.total -= m.away
		s.away -= m.away
		m.used -= m.away
		m.away = 0
		s.left += m.used
	}
	s.sum -= m.weight
	m.weight = 0
	m.gone = true
	delete(s.byName, m.name)
	s.gone[m.name] = i
}

// Hold sets c aside for a call of a member if the member's share, or what is
// reserved for nobody, has room for it. A removed member is refused.
func (s *Split) Hold(now time.Time, id MemberID, c int64) (Hold, Answer) {
	s.advance(now)
	i, ok := s.find(id)
	if !ok || s.members[i].gone {
		return Hold{}, Answer{}
	}
	c = max(0, c)
	s.lift(i)
	defer s.place(i)
	m := &s.members[i]
	room := s.room(m)
	ans := Answer{Ceiling: m.used + room, Remaining: room}
	if c > room {
		ans.RetryAt = s.retryAt(m, c)
		return Hold{}, ans
	}
	m.used += c
	s.total += c
	ans.OK = true
	ans.Remaining = room - c
	return s.win.hold(c, id), ans
}

// Settle ends a call that took actual, by the same rule as Cap.Settle. The end
// of a removed member's call counts in the period, but in nobody's share.
func (s *Split) Settle(now time.Time, h Hold, actual int64) {
	s.advance(now)
	d := min(s.win.due(h, actual), maxUsed-s.total)
	if d == 0 {
		return
	}
	s.total += d
	i, ok := s.find(h.member)
	if !ok {
		s.left += d
		return
	}
	s.lift(i)
	m := &s.members[i]
	m.used += d
	if m.gone {
		s.left += d
		return
	}
	s.place(i)
}

// Used is the amount that counts in the current period: settled, and held by calls in
// flight.
func (s *Split) Used(now time.Time) int64 {
	s.advance(now)
	return s.total
}

// UsedBy is the part of Used that one member has.
func (s *Split) UsedBy(now time.Time, id MemberID) int64 {
	s.advance(now)
	if i, ok := s.find(id); ok && s.members[i].last == s.round {
		return s.members[i].used
	}
	return 0
}

// Limit is the most that may be used in a period.
func (s *Split) Limit() int64 { return s.cfg.Limit }

// SetLimit changes the limit, from the current period on.
func (s *Split) SetLimit(limit int64) { s.cfg.Limit = clampLimit(limit) }

// ResetAt is when the next period begins.
func (s *Split) ResetAt(now time.Time) time.Time {
	s.advance(now)
	return s.win.end
}
