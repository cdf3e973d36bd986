package escrow

import "time"

// AxisState describes one axis of a pool. If the axis has no limit, all
// of it is zero.
type AxisState struct {
	On    bool
	Limit int64 // units a Window
	// Used counts against the limit: booked in the last Window, and held.
	Used int64
	// FullAt is when the last of the present bookings leaves the Window.
	FullAt time.Time
}

// State is a copy of a pool's books, for headers, metrics and the console.
type State struct {
	Axes    [Rolling]AxisState // by Axis
	Slots   int64              // that may be used; 0 = no limit
	Running int64
	Waiting int // calls in the queue, those that pause included
	Tickets int // kept places
	// Part is how much of the rate is handed out, in parts of WholePace, and Held is
	// until when nothing is; zero for no hold. See Throttle.
	Part int64
	Held time.Time
}

// State reports the books as of now. O(1) but for FullAt, which walks slots.
func (p *Pool) State(now time.Time) State {
	p.advance(now)
	s := State{Slots: p.slots, Running: p.running, Waiting: int(p.waiting() + p.paused), Tickets: p.Tickets(), Part: p.part, Held: p.held}
	for k := range p.axes {
		a := &p.axes[k]
		if !a.on {
			continue
		}
		l, _ := a.booked()
		s.Axes[k] = AxisState{On: true, Limit: a.limit, Used: a.used(), FullAt: l.FullAt()}
	}
	return s
}

// InFlight is how many calls run.
func (p *Pool) InFlight() int64 { return p.running }

// InBackground is how many of these are background calls.
func (p *Pool) InBackground() int64 { return p.background }

// Waiting is how many calls are queued.
func (p *Pool) Waiting() int { return int(p.waiting()) }

// Queued is how many calls of each class wait.
func (p *Pool) Queued() (ofInteractive, ofBackground int) {
	n := &p.nodes[Root]
	return int(n.queued[interactive]), int(n.queued[background])
}

// Expected reports whether callers wait, or will be back: they were told a time that is still to come, or were told it within the last Window.
func (p *Pool) Expected() bool { return p.waiting() > 0 || p.now < p.expected }

// Top is the node below Root that a node is, or is below.
func (p *Pool) Top(i NodeID) NodeID {
	for p.nodes[i].parent != Root {
		i = p.nodes[i].parent
	}
	return i
}

// NodeState describes one node.
type NodeState struct {
	Node
	// Counts is the part of the weight that counts here: see Share.
	Counts Weight
	// Queued and Running are calls below the node, and Later those of Queued that are background calls.
	Queued, Running, Later int
	// Waiting is Queued, and, of a leaf, the calls that pause.
	Waiting int
}

// Node reports one node. Of Root, Running is not counted: see State.
func (p *Pool) Node(i NodeID) NodeState {
	n := &p.nodes[i]
	return NodeState{n.claim, Weight(n.weight) / weightOne, int(n.waiting()), int(n.running), int(n.queued[background]), int(n.waiting() + n.paused)}
}

// Running reports whether h names a running call.
func (p *Pool) Running(h Handle) bool {
	_, ok := p.find(h, entryRunning)
	return ok
}

// CostOf is the cost that the queued or running call of a Handle.Slot is, or will be, booked
// at or held, as of its dispatch.
func (p *Pool) CostOf(slot int) Cost { return p.entries[slot].cost }

// HandleAt is the handle of the queued or running call of a Handle.Slot.
func (p *Pool) HandleAt(slot int) Handle { return p.handle(int32(slot)) }
