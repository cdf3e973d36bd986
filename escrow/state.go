package escrow

import "time"

// AxisState is what is known of one axis of a pool.
type AxisState struct {
	On    bool
	Limit int64
	// Used counts against the limit: booked in the last Window, and held.
	Used int64
	// FullAt is when the last booking leaves the Window.
	FullAt time.Time
}

// State is a copy of a pool's books, for headers, metrics and the console.
type State struct {
	Axes    [rollingAxes]AxisState
	Slots   int64 // 0 = no limit
	Running int64
	Waiting int
}

// State reports the books as of now. O(1) but for FullAt, which walks slots.
func (p *Pool) State(now time.Time) State {
	p.advance(now)
	s := State{Slots: p.cfg.Slots, Running: p.running, Waiting: p.q.waiting}
	for k := range p.axes {
		if a := &p.axes[k]; a.on {
			s.Axes[k] = AxisState{On: true, Limit: a.ledger.limit, Used: a.ledger.Used(), FullAt: a.ledger.FullAt()}
		}
	}
	return s
}

// Waiting is how many calls are queued.
func (p *Pool) Waiting() int { return p.q.waiting }

// LeafState is what is known of one leaf.
type LeafState struct {
	Weight Weight
	Queued int
}

// Leaf reports one leaf.
func (p *Pool) Leaf(i LeafID) LeafState {
	l := &p.q.leaves[i]
	return LeafState{Weight: l.weight, Queued: l.queued}
}

// Running reports whether h names a running call.
func (p *Pool) Running(h Handle) bool {
	_, ok := p.find(h, entryRunning)
	return ok
}

// CostOf is what the queued or running call in a slot of handles is booked at.
func (p *Pool) CostOf(slot int) Cost { return p.entries[slot].cost }
