package governor

import (
	"time"

	"github.com/llmgov/llmgov/governor/record"
)

// Shared is all of a governor that may be shared with other processes, for whoever speaks with them
// (package sharing). Each of its parts states its demand, and is told its grants.
type Shared interface {
	// SharedPools are the rates of pools.
	SharedPools() []*SharedPool
	// SharedSlots are the slots and budgets of pools, and SharedLimits the limits and budgets of tenants,
	// that have come into use or lack a grant. SharedCalls are calls that ask before they go.
	SharedSlots() []*SharedSlots
	SharedLimits() []*SharedLimits
	SharedCalls() []*SharedCall
	// MoreShared holds an element when one of these three has something to return.
	MoreShared() <-chan struct{}
	// Sign says until when a sign of life is good, on which grants may depend (SharedLimits.Keep).
	Sign(number int, until time.Time)
}

var _ Shared = (*Governor)(nil)

// changes are for whoever speaks with other processes: which limits of tenants and pools have come into
// use or lack a grant (Config.SharedLimits, Config.SharedSlots), and which calls ask.
type changes struct {
	g    *Governor
	more chan struct{} // holds an element when something below waits to be taken
	past *record.Uses  // what earlier processes used

	listed map[*ownLimits]bool // came into use, or lack a grant, since they were last taken
	pools  map[*pool]bool      // likewise, pools with slots or budgets that are divided
	made   int                 // limits, so far
	asking []*SharedCall       // calls that asked since they were last taken
	retold *retold             // by Retell; nil if nothing was
	signs  map[int]time.Time   // of life, by number: until when they are good
}

func newChanges(g *Governor) *changes {
	return &changes{g: g, more: make(chan struct{}, 1), listed: map[*ownLimits]bool{}, pools: map[*pool]bool{}, signs: map[int]time.Time{}}
}

func (n *changes) list(o *ownLimits) {
	n.listed[o] = true
	n.tell()
}

// listPool lists a pool whose slots or budgets are shared.
func (n *changes) listPool(p *pool) {
	n.pools[p] = true
	n.tell()
}

// tell wakes whoever takes what is listed.
func (n *changes) tell() {
	select {
	case n.more <- struct{}{}:
	default: // there is one already
	}
}

func (n *changes) askFor(call *SharedCall) {
	n.asking = append(n.asking, call)
	n.tell()
}

// taken empties a set into a list.
func taken[T comparable](listed map[T]bool) (list []T) {
	for x := range listed {
		list = append(list, x)
	}
	clear(listed)
	return list
}

// SharedCalls returns the calls that have asked whether they may go since it was last called.
func (g *Governor) SharedCalls() []*SharedCall {
	if g.changes == nil {
		return nil
	}
	g.lock()
	defer g.unlock()
	list := g.changes.asking
	g.changes.asking = nil
	return list
}

// MoreShared returns a channel that holds an element when SharedLimits, SharedCalls or SharedSlots has
// something to return. It is nil if nothing is shared.
func (g *Governor) MoreShared() <-chan struct{} {
	if g.changes == nil {
		return nil
	}
	return g.changes.more
}
