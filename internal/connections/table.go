package connections

import (
	"container/list"
	"time"
)

// Limits are the bounds of a listener.
type Limits struct {
	// All bounds the connections.
	All int
	// Strangers bounds the connections without a valid key.
	Strangers int
	// Grace is the time for which a stranger is not closed.
	Grace time.Duration
}

// Stats are counts of a listener's connections.
type Stats struct {
	Open      int
	Strangers int
	Closed    int64 // for newer ones
}

// table is the account of a listener's connections.
type table struct {
	limits    Limits
	open      int
	strangers list.List // of *Conn, the one that came first in front
	closed    int64
}

// admit adds a connection, if there is room. Otherwise it returns the stranger to be closed first,
// which is then removed, or the time to wait; 0 is until something changes.
func (t *table) admit(c *Conn, now time.Time) (ok bool, close *Conn, wait time.Duration) {
	if t.open < t.limits.All && t.strangers.Len() < t.limits.Strangers {
		t.open++
		c.since = now
		c.stranger = t.strangers.PushBack(c)
		return true, nil, 0
	}
	first := t.strangers.Front()
	if first == nil {
		return false, nil, 0
	}
	old := first.Value.(*Conn)
	if wait := old.since.Add(t.limits.Grace).Sub(now); wait > 0 {
		return false, nil, wait
	}
	t.remove(old)
	t.closed++
	return false, old, 0
}

// know records that a connection has shown a valid key.
func (t *table) know(c *Conn) {
	if c.stranger != nil {
		t.strangers.Remove(c.stranger)
		c.stranger = nil
	}
}

// remove removes a connection. Only the first call counts.
func (t *table) remove(c *Conn) {
	if c.removed {
		return
	}
	c.removed = true
	t.know(c)
	t.open--
}

func (t *table) stats() Stats {
	return Stats{Open: t.open, Strangers: t.strangers.Len(), Closed: t.closed}
}
