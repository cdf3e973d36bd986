package upstreams

import (
	"iter"
	"math"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/internal/lib/affinity"
)

// Most is the largest number of upstreams of a pool.
const Most = 64

// Spec is an upstream of a configuration. Identity is its kind, address and key: when it changes, its
// health starts anew. Account is whose limits its calls count against: that of one key has it in common with others.
type Spec struct {
	Name     string
	Weight   int64
	Order    int64
	Identity string
	Account  string
	// Limited says that it is one of several of which some have limits of their own. Own are its; 0 is none.
	Limited bool
	Own     Told
	Heed    Heed
}

// Heed is what limits that an upstream declares, and their use by others, may do.
type Heed int

const (
	HeedLower  Heed = iota // They may lower a pool's limits.
	HeedOff                // They are only shown.
	HeedFollow             // They may raise them, too, within their Range.
)

// Set is a pool's upstreams. It is safe for concurrent use.
type Set struct {
	Members []*Member
	all     Mask
	limited bool // its members have limits of their own
	uses    *uses
	movers  *movers

	// Ranges are where the pool's limits may be, by axis, and Shared is whether other gateways go by them as well. They are for whoever made the Set.
	Ranges [limits.Kinds]Range
	Shared bool

	mu    sync.Mutex
	wheel [Most]int64              // guarded by mu: the lead of each over its turn
	homes [Most]affinity.Candidate // guarded by mu: room for those of one choice
}

// Mask is a subset of a Set's members, by their index.
type Mask uint64

// With is the mask with another member.
func (m Mask) With(i int) Mask { return m | 1<<i }

// New makes a Set. It keeps the health of members of the previous set, and whose turn it is among them.
func New(list []Spec, before *Set) *Set {
	s := &Set{uses: &uses{at: map[Scope]time.Time{}}, movers: &movers{}}
	if before != nil {
		s.uses = before.uses
		s.movers = before.movers
	}
	for i, spec := range list {
		m := &Member{Name: spec.Name, Account: spec.Account, Weight: spec.Weight, Order: spec.Order, own: spec.Own, heeds: spec.Heed, seed: affinity.SeedOf(spec.Name)}
		for k := range m.inPool {
			m.inPool[k] = 1
		}
		if before != nil {
			for _, old := range before.Members {
				if old.Name == spec.Name && old.identity == spec.Identity {
					m.state = old.state
				}
			}
		}
		if m.state == nil {
			m.state = &state{identity: spec.Identity, uses: s.uses}
		}
		s.limited = s.limited || spec.Limited
		s.Members = append(s.Members, m)
		s.all = s.all.With(i)
	}
	if before != nil {
		before.mu.Lock()
		defer before.mu.Unlock()
		for i, m := range before.Members {
			if at := s.Place(m.Name); at >= 0 {
				round := s.round(s.Members[at].Order)
				s.wheel[at] = min(max(before.wheel[i], -round), round) // weights may have been larger
			}
		}
	}
	return s
}

// round is how many calls a whole turn of the wheel has, of members of one order, and no lead should be larger.
func (s *Set) round(order int64) (calls int64) {
	for _, m := range s.Members {
		if m.Order == order {
			calls += m.Weight
		}
	}
	return calls
}

// Limited reports whether members have limits of their own.
func (s *Set) Limited() bool { return s.limited }

// Place is the index of the member with a name; -1 if there is none.
func (s *Set) Place(name string) int {
	return slices.IndexFunc(s.Members, func(m *Member) bool { return m.Name == name })
}

// Names are the names of some members.
func (s *Set) Names(some Mask) (names []string) {
	for i := range s.each(some) {
		names = append(names, s.Members[i].Name)
	}
	return names
}

// All is the mask of all members.
func (s *Set) All() Mask { return s.all }

// Choice is the upstream for a call. If there is none, At is the time at which there may be
// one: if Busy, the end of the first pause.
type Choice struct {
	Index int
	Probe bool // for the Result
	OK    bool
	Busy  bool
	At    time.Time
}

// Choose picks one of some members for a tenant's call of a scope: of those that are ready, one of the lowest order; there the one that is next for
// the call's conversation, or, if it has none, the one whose turn it is by weight. The same calls before
// it and in flight make the same choice. The call is in flight there until it Leaves.
func (s *Set) Choose(now time.Time, among Mask, scope Scope, tenant string, of affinity.Conversation) Choice {
	s.mu.Lock()
	defer s.mu.Unlock()
	ready, none := s.ready(now, among, scope, tenant)
	if ready == 0 {
		return none
	}
	best := 0
	if of == affinity.None {
		best = s.turnLocked(ready)
	} else {
		best = s.homeLocked(ready, of)
	}
	s.Members[best].running.Add(1)
	return Choice{Index: best, OK: true, Probe: s.Members[best].startProbe(now, tenant)}
}

// ready are those members of the lowest order with one that is ready which are. If no member is, none says when one may
// be.
func (s *Set) ready(now time.Time, among Mask, scope Scope, tenant string) (ready Mask, none Choice) {
	lowest := int64(math.MaxInt64)
	for i := range s.each(among) {
		m := s.Members[i]
		m.mu.Lock()
		r := m.readyLocked(now, scope, tenant)
		m.mu.Unlock()
		switch {
		case !r.ok:
			if none.At.IsZero() || r.cooled && !none.Busy || r.cooled == none.Busy && r.at.Before(none.At) {
				none.At = r.at
				none.Busy = r.cooled
			}
		case m.Order < lowest:
			lowest = m.Order
			ready = Mask(0).With(i)
		case m.Order == lowest:
			ready = ready.With(i)
		}
	}
	return ready, none
}

// Ready are those of some members which are ready for a tenant's call of a scope, of any order.
func (s *Set) Ready(now time.Time, among Mask, scope Scope, tenant string) (ready Mask) {
	for i := range s.each(among) {
		m := s.Members[i]
		m.mu.Lock()
		r := m.readyLocked(now, scope, tenant)
		m.mu.Unlock()
		if r.ok {
			ready = ready.With(i)
		}
	}
	return ready
}

// homeLocked picks the member where a conversation goes.
func (s *Set) homeLocked(ready Mask, of affinity.Conversation) int {
	list := s.homes[:0]
	for i := range s.each(ready) {
		m := s.Members[i]
		list = append(list, affinity.Candidate{Index: i, Seed: m.seed, Weight: m.Weight, Running: m.running.Load()})
	}
	return affinity.Home(list, of).Index
}

// turnLocked turns the wheel, by one call, of the members whose turn it may be.
func (s *Set) turnLocked(ready Mask) (best int) {
	best = -1
	total := int64(0)
	for i := range s.each(ready) {
		s.wheel[i] += s.Members[i].Weight
		total += s.Members[i].Weight
		if best < 0 || s.wheel[i] > s.wheel[best] {
			best = i
		}
	}
	s.wheel[best] -= total
	return best
}

// each iterates over the members of a mask, by their index.
func (s *Set) each(among Mask) iter.Seq[int] {
	return func(yield func(int) bool) {
		for left := among & s.all; left != 0; left &= left - 1 {
			if !yield(bits.TrailingZeros64(uint64(left))) {
				return
			}
		}
	}
}

// startProbe makes a call the probe if the member needs one. If another Set that shares the
// member was faster, this call goes beside its probe.
func (s *state) startProbe(now time.Time, tenant string) (probe bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := s.openLocked(tenant)
	if slices.ContainsFunc(open, func(b *breaker) bool { return b.until.After(now) }) {
		return false
	}
	for _, b := range open {
		b.probed(now)
	}
	return len(open) > 0
}

// Pause is the end of the first pause of some members for the calls of a scope, or zero without one. only reports
// that no other of them may be called meanwhile.
func (s *Set) Pause(now time.Time, among Mask, scope Scope) (at time.Time, only bool) {
	only = true
	for i := range s.each(among) {
		m := s.Members[i]
		m.mu.Lock()
		r := m.readyLocked(now, scope, "")
		m.mu.Unlock()
		only = only && !r.ok
		if r.cooled && (at.IsZero() || r.at.Before(at)) {
			at = r.at
		}
	}
	return at, only
}

// Answering picks a member that does not work but answers to a tenant, of the lowest order. The call is in flight there until it Leaves.
func (s *Set) Answering(now time.Time, among Mask, scope Scope, tenant string) (i int, ok bool) {
	best := -1
	for i := range s.each(among) {
		m := s.Members[i]
		m.mu.Lock()
		r := m.readyLocked(now, scope, tenant)
		answers := !r.ok && !r.cooled && (!m.breaker.open || m.breaker.answersTo(tenant))
		m.mu.Unlock()
		if answers && (best < 0 || m.Order < s.Members[best].Order) {
			best = i
		}
	}
	if best < 0 {
		return 0, false
	}
	s.Members[best].running.Add(1)
	return best, true
}

// State is the health of a member.
type State struct {
	// Up is whether its breaker is closed. Probing is whether the next call is a probe.
	Up, Probing bool
	// Since is the time at which the breaker opened; zero if it is closed.
	Since time.Time
	// Cause is the failure that opened it, or the last probe's.
	Cause string
	// Retry is the time at which it may be called again; zero for now.
	Retry time.Time
	// Busy is whether it asked for a pause of all calls in use until Retry.
	Busy bool
	// Declared are its declared limits; 0 is none.
	Declared Told
	// Foreign is how much others use, as far as that is known, of ForeignOf: of several models' limits that of which they use the largest part.
	Foreign, ForeignOf Told
}

// State is the health of the member.
func (s *state) State(now time.Time) State {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.readyLocked(now, Scope{}, "")
	l := s.largestLocked(now, false)
	var since time.Time
	if s.breaker.open {
		since = s.breaker.since
	}
	used, of := s.foreignLocked(now)
	return State{
		Since: since, Cause: s.breaker.cause,
		Up: !s.breaker.open, Probing: s.breaker.open && !now.Before(s.breaker.until),
		Retry: r.at, Busy: r.cooled, Declared: l.Told, Foreign: used, ForeignOf: of,
	}
}

// Tries counts the tries by their Outcome.
func (s *state) Tries() [numOutcomes]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tries
}
