package slots

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/internal/lib/muldiv"
)

// Rules of a pool's slots.
type Rules struct {
	// Slots is how many calls may run at once: the most that an adaptive limit may become. 0 is no limit.
	Slots int64
	// Adaptive is the law by which the limit moves, from Least on.
	Adaptive adaptive.Law
	Least    int64
	Loss     Loss
	// Instance names the process to others that find the same adaptive limit. No other one may have it, now or later; empty draws a name.
	Instance string
}

// Loss is the rule for the time in which nobody says what a process may use.
type Loss struct {
	// Open lets each process use all of a limit.
	Open bool
	// WithheldPPM is the part of each limit that is never granted, in millionths. Processes that are cut off share it.
	WithheldPPM int64
	// Nodes is how many processes there are; 0 is unknown.
	Nodes int
}

// Withheld is the part of a limit that is never granted.
func (l *Loss) Withheld(limit int64) int64 { return muldiv.Floor(limit, l.WithheldPPM, 1_000_000) }

// Own is how much of a limit a process may use by itself while it is cut off.
func (l *Loss) Own(limit int64) int64 {
	switch {
	case l.Open:
		return limit
	case l.Nodes > 0:
		return l.Withheld(limit) / int64(l.Nodes)
	}
	return 0
}

// Node is a node of the pool's tree of claims, for a pool that is shared.
type Node struct {
	ID escrow.NodeID
	// Path names the node to other processes, and Name its tenant or group.
	Path, Name string
	Weight     escrow.Weight
	// Top says that it is right below the pool, and Leaf that calls are its own.
	Top, Leaf bool
}

// Side is one process's side of the slots of a pool. It is not safe for concurrent use.
type Side struct {
	// Limiter moves the limit; nil if that stands. Report samples to the Side, which narrows the pool by it.
	Limiter *adaptive.Fleet

	pool   *escrow.Pool
	rules  Rules
	shared bool // other processes have parts of the slots
	nodes  []Node
	paths  map[string]escrow.NodeID

	grant   Grant
	until   time.Time // when the grant expires; zero when it has
	alone   bool      // nobody answers
	fenced  bool      // another process has taken this one's name
	refused map[escrow.NodeID]*turnedAway
	lacked  map[escrow.NodeID]int64 // calls that lacked a slot at the last Demand, by node below the pool; only with a hold-back
	longest longest
}

// New returns the side of a pool that no call has come to. shared says that other processes have parts of its slots, so
// that it may use none without a grant. Call Configure next.
func New(pool *escrow.Pool, shared bool) *Side {
	return &Side{pool: pool, shared: shared, refused: map[escrow.NodeID]*turnedAway{}}
}

// Configure changes the rules. The findings of an adaptive limit are kept. Call Narrow when the pool goes by the same.
func (s *Side) Configure(rules Rules) {
	s.rules = rules
	cfg := adaptive.Config{Law: rules.Adaptive, Min: rules.Least, Max: rules.Slots}
	switch {
	case cfg.Law == adaptive.Fixed:
		s.Limiter = nil
	case s.Limiter == nil:
		s.Limiter = adaptive.NewFleet(cfg)
		s.Limiter.Name(rules.Instance)
		s.Limiter.Begin(s.pool.InFlight())
	default:
		s.Limiter.Configure(cfg)
	}
}

// Plant replaces the tree of claims.
func (s *Side) Plant(nodes []Node) {
	s.nodes = nodes
	s.paths = make(map[string]escrow.NodeID, len(nodes))
	for _, n := range nodes {
		s.paths[n.Path] = n.ID
	}
}

// Narrow has the pool go by the limit, or by the grant of it. Call escrow.Pool.Pump afterwards, because a call that waits may
// fit now.
func (s *Side) Narrow() {
	slots := s.Limit()
	if s.shared {
		slots = s.usable(slots)
	}
	s.pool.Narrow(slots)
	if s.shared {
		s.bind(slots)
		s.shareUse()
		s.pool.Expect(s.Limit() - s.grant.Others)
	}
}

// Limit is how many calls may run at once in all processes.
func (s *Side) Limit() int64 {
	if s.Limiter != nil {
		return s.Limiter.Limit()
	}
	return s.rules.Slots
}

// Together is how many of these there are for all processes that are not cut off.
func (s *Side) Together() int64 {
	limit := s.Limit()
	return limit - s.rules.Loss.Withheld(limit)
}

// InUse is how many calls may run at once in all processes, and how many do.
func (s *Side) InUse() (limit, used int64) { return s.Limit(), s.pool.InFlight() + s.grant.Others }

// Background is how many background calls may run at once, and how many do: in all processes, but for an adaptive limit here,
// because each process reserves slots of its own then.
func (s *Side) Background() (limit, used int64) {
	if s.shared && s.Limiter != nil {
		return s.forBackground(s.usable(s.Limit())), s.pool.InBackground()
	}
	return s.backgroundAnywhere()
}

func (s *Side) backgroundAnywhere() (limit, used int64) {
	return s.forBackground(s.Limit()), s.pool.InBackground() + s.grant.elsewhere(Bound{Rule: escrow.InteractiveReserve})
}

// reserve is the rule by which background calls leave slots free; nil if they need not.
func (s *Side) reserve() *escrow.Rule {
	rules := s.pool.Rules()
	i := slices.IndexFunc(rules, func(r escrow.Rule) bool { return r.Of == escrow.Background })
	if i < 0 {
		return nil
	}
	return &rules[i]
}

// forBackground is how many of so many slots background calls may take.
func (s *Side) forBackground(slots int64) int64 {
	if r := s.reserve(); r != nil {
		return r.Sized(slots).Most[0]
	}
	return slots
}

// full reports whether the limit on calls at once keeps a further call from being dispatched. An adaptive one does not if the only
// reason is that other processes have slots that they do not use.
func (s *Side) full(leaf escrow.NodeID, background bool) bool {
	if s.pool.Free() && s.pool.Keeps(&escrow.Call{Leaf: leaf, Background: background}) == nil {
		return false
	}
	if !s.shared {
		return true
	}
	_, used := s.InUse()
	limit := s.Together()
	if background && s.reserve() != nil {
		limit -= limit / 2 // as much may be reserved in each process
	}
	return used >= limit-limit/8
}
