package slots

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// Demand is the demand of one process on a pool's slots.
type Demand struct {
	// Configured says that the configuration still has the pool. Fenced says that no call can begin here, because another
	// process has this one's name.
	Configured, Fenced bool
	// Expect is how many processes divide the slots according to the configuration; 0 is unknown.
	Expect int
	// Slots is how many calls may run at once, and Together how many
	// of these all processes may use that are not cut off. Most of those could be used here at all.
	// Of an adaptive limit they are those that the processes have found out, of which they tell each other by Note.
	Slots, Together, Most int64
	Note                  string
	// Running is how many calls run here, and Tail how long they may go on running if this process is heard of no more.
	Running int64
	Tail    time.Duration
	// Waiting calls lack a slot. Background ones lack one that background calls may use. Returning
	// ones were refused for want of a slot and may come back.
	Waiting, Background, Returning int64
	Stakes                         []Stake
	Bounds                         []BoundDemand
}

// Stake is the usage and demand of slots here of a group, or of a tenant in none.
type Stake struct {
	Node   escrow.NodeID
	Weight escrow.Weight
	// Running and Queued are its calls. Returning ones were refused for want of a slot and may come
	// back.
	Running, Queued, Returning int64

	path string // by which other processes know the node
}

// Demand is the demand on slots as of now, in a pool that the configuration has. oldest is how long the oldest call has run.
func (s *Side) Demand(now time.Time, oldest time.Duration) Demand {
	d := Demand{Configured: true, Fenced: s.fenced, Running: s.pool.InFlight()}
	if s.rules.Slots == 0 {
		s.grant = Grant{}
		return d
	}
	d.Slots = s.Limit()
	d.Together = s.Together()
	d.Most = d.Together
	if s.Limiter != nil {
		s.tell(now, &d)
	}
	d.Tail = s.longest.tail(now, oldest)
	d.Waiting, d.Background = s.lacking()
	d.Returning = s.allReturning(now)
	for _, x := range s.nodes {
		if !x.Top {
			continue
		}
		n := s.pool.Node(x.ID)
		d.Stakes = append(d.Stakes, Stake{
			Node: x.ID, Weight: n.Counts, Running: int64(n.Running), Queued: int64(n.Queued),
			Returning: s.returning(x.ID, int64(n.Running)), path: x.Path,
		})
	}
	s.demandBounds(&d)
	return d
}

// tell fills in the note of an adaptive limit. While this process does not know the limit of the others, it
// does not stand against theirs.
func (s *Side) tell(now time.Time, d *Demand) {
	note, limit := s.Limiter.Tell(now)
	d.Note = note
	if limit == 0 {
		d.Together = s.rules.Slots - s.rules.Loss.Withheld(s.rules.Slots)
	}
}

// lacking is how many calls wait for a slot, and how many background calls wait for one
// that background calls may use.
func (s *Side) lacking() (waiting, background int64) {
	first, later := s.pool.Queued()
	open := int64(later)
	if r := s.reserve(); r != nil && s.Limiter == nil {
		open = min(open, max(0, s.grant.of(Bound{Rule: r.Name}).Slots-s.pool.InBackground()))
		background = int64(later) - open
	}
	if s.pool.Free() {
		return 0, background
	}
	return int64(first) + open, background
}

// excuseKept takes calls that restrictions and bands keep waiting out of the demand, each once. It returns how many, by the tenants whose
// soft caps they would count in.
func (s *Side) excuseKept(d *Demand) (kept map[escrow.NodeID]int64) {
	kept = map[escrow.NodeID]int64{}
	for _, x := range s.nodes {
		if !x.Leaf {
			continue
		}
		n := s.pool.Node(x.ID)
		calls := int64(n.Queued)
		by, _ := s.pool.KeptOut(x.ID)
		switch {
		case by == nil:
			continue
		case by.Name == escrow.PerTenant:
		case by.Of == escrow.Lower: // room for some may be elsewhere, and one needs a slot when it has risen
			calls -= min(calls, max(1, by.Sized(d.Together).Most[n.Below]-d.Running-s.grant.Others))
		default:
			continue
		}
		d.excuse(s.pool.Top(x.ID), calls, int64(n.Later))
		kept[s.pool.Claimant(x.ID)] += calls
	}
	return kept
}

// excuse takes calls of a node below the pool that lack no slot out of the demand, those that are still in it. Up to later of them are
// background calls: first those that Background counts, because Waiting does not.
func (d *Demand) excuse(top escrow.NodeID, calls, later int64) {
	for i := range d.Stakes {
		s := &d.Stakes[i]
		if s.Node != top {
			continue
		}
		calls = min(max(0, calls), s.Queued)
		s.Queued -= calls
		ofBackground := min(calls, later, d.Background)
		d.Background -= ofBackground
		d.Waiting -= min(calls-ofBackground, d.Waiting)
	}
}
