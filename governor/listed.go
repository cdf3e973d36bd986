package governor

import "sync"

// commons are the limits of a governor, and the slots of its pools, that are kept together with
// other processes (Config.SharedLimits, Config.SharedSlots). A process has a part of each limit and
// counts as if that were all of it; see package federation/parts. Here wait those for whom the
// store has to be asked.
type commons struct {
	more chan struct{} // holds an element when something below waits to be taken

	mu     sync.Mutex
	listed map[*ownLimits]bool // came into use, or lack a part, since they were last taken
	pools  map[*pool]bool      // likewise, pools with slots or budgets that are divided
	asking []*SharedCall       // calls that asked since they were last taken
}

func newCommons() *commons {
	return &commons{more: make(chan struct{}, 1), listed: map[*ownLimits]bool{}, pools: map[*pool]bool{}}
}

func (c *commons) list(o *ownLimits) {
	c.mu.Lock()
	c.listed[o] = true
	c.mu.Unlock()
	c.tell()
}

// listPool lists a pool whose slots or budgets are kept together with other processes.
func (c *commons) listPool(p *pool) {
	c.mu.Lock()
	c.pools[p] = true
	c.mu.Unlock()
	c.tell()
}

// tell wakes whoever takes what is listed.
func (c *commons) tell() {
	select {
	case c.more <- struct{}{}:
	default: // there is one already
	}
}

func (c *commons) askFor(call *SharedCall) {
	c.mu.Lock()
	c.asking = append(c.asking, call)
	c.mu.Unlock()
	c.tell()
}

// takeCalls hands over the calls that ask.
func (c *commons) takeCalls() []*SharedCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.asking
	c.asking = nil
	return list
}

// take hands over the listed limits, and takePools the listed pools.
func (c *commons) take() []*ownLimits {
	c.mu.Lock()
	defer c.mu.Unlock()
	return taken(c.listed)
}

func (c *commons) takePools() []*pool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return taken(c.pools)
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
	if g.commons == nil {
		return nil
	}
	return g.commons.takeCalls()
}

// MoreShared returns a channel that holds an element when SharedLimits, SharedCalls or SharedSlots has
// something to return. It is nil if nothing is shared.
func (g *Governor) MoreShared() <-chan struct{} {
	if g.commons == nil {
		return nil
	}
	return g.commons.more
}
