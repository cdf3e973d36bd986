package governor

import "sync"

// commons are the quotas of a governor, and the slots of pools, that are kept together with other
// processes (Config.SharedLimits, SharedSlots): a process may have a part of each limit, and counts as if that
// were all (see package federation/parts).
type commons struct {
	more chan struct{} // takes a word when there are some to be taken

	mu     sync.Mutex
	listed map[*quota]bool // those that have come into use, or lack a part, since they were taken
	pools  map[*pool]bool  // likewise, those whose slots have
	asking []*SharedCall   // that ask whether they may go, since they were taken
}

func newCommons() *commons {
	return &commons{more: make(chan struct{}, 1), listed: map[*quota]bool{}, pools: map[*pool]bool{}}
}

func (c *commons) list(q *quota) {
	c.mu.Lock()
	c.listed[q] = true
	c.mu.Unlock()
	c.tell()
}

// listPool lists a pool whose slots are kept together with other processes.
func (c *commons) listPool(p *pool) {
	c.mu.Lock()
	c.pools[p] = true
	c.mu.Unlock()
	c.tell()
}

// tell says that there is something to be taken.
func (c *commons) tell() {
	select {
	case c.more <- struct{}{}:
	default: // it is known
	}
}

func (c *commons) askFor(call *SharedCall) {
	c.mu.Lock()
	c.asking = append(c.asking, call)
	c.mu.Unlock()
	c.tell()
}

// takeCalls hands over those that ask.
func (c *commons) takeCalls() []*SharedCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.asking
	c.asking = nil
	return list
}

// take hands over quotas, and takePools pools.
func (c *commons) take() []*quota {
	c.mu.Lock()
	defer c.mu.Unlock()
	return taken(c.listed)
}

func (c *commons) takePools() []*pool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return taken(c.pools)
}

// taken empties a list.
func taken[T comparable](listed map[T]bool) (list []T) {
	for x := range listed {
		list = append(list, x)
	}
	clear(listed)
	return list
}
