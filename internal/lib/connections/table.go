package connections

import (
	"cmp"
	"container/list"
	"slices"
	"time"
)

// Limits are the bounds of a listener.
type Limits struct {
	// All bounds the connections.
	All int
	// Tenants is how many of them tenants divide among each other.
	Tenants int
	// Strangers bounds the connections without a valid key.
	Strangers int
	// Grace is the time for which a connection is not closed after it came, or after its last call.
	Grace time.Duration
}

// Stats are counts of a listener's connections.
type Stats struct {
	Open      int
	Strangers int
	Closed    int64 // for others
}

// table is the account of a listener's connections.
type table struct {
	limits    Limits
	open      int
	strangers list.List // of *Conn, the one that came first in front
	tenants   map[string]*list.List
	known     int // in tenants
	closed    int64
}

// admit adds a connection, if there is room. Otherwise it returns the one to be closed first,
// which is then removed, or the time to wait; 0 is until something changes.
func (t *table) admit(c *Conn, now time.Time) (ok bool, close *Conn, wait time.Duration) {
	if t.open < t.limits.All && t.strangers.Len() < t.limits.Strangers {
		t.open++
		c.since = now
		c.list = &t.strangers
		c.place = t.strangers.PushBack(c)
		return true, nil, 0
	}
	if t.open >= t.limits.All {
		if old := t.idle(nil, now); old != nil {
			return false, t.displace(old), 0
		}
	}
	first := t.strangers.Front()
	if first == nil {
		return false, nil, t.limits.Grace // by when one may have become idle
	}
	old := first.Value.(*Conn)
	if wait := old.since.Add(t.limits.Grace).Sub(now); wait > 0 {
		return false, nil, wait
	}
	return false, t.displace(old), 0
}

// know records that a connection has shown a valid key of a tenant, or "" for a token. If tenants have too many it returns an idle
// one to be closed, which is then removed; if there is none, a tenant that has its part already gets no further one.
func (t *table) know(c *Conn, tenant string, now time.Time) (ok bool, close *Conn) {
	if c.list != &t.strangers {
		return true, nil
	}
	if tenant == "" {
		t.leave(c)
		return true, nil
	}
	own := t.tenants[tenant]
	if own == nil {
		own = list.New()
	}
	if t.known >= t.limits.Tenants {
		close = t.idle(own, now)
		if close == nil && own.Len() >= t.part() {
			return false, nil
		}
	}
	t.leave(c)
	if close != nil {
		t.displace(close)
	}
	if t.tenants == nil {
		t.tenants = map[string]*list.List{}
	}
	t.tenants[tenant] = own
	t.known++
	c.tenant = tenant
	c.list = own
	c.place = own.PushBack(c)
	return true, close
}

// part is how many connections a tenant may have when there are too many.
func (t *table) part() int { return max(1, t.limits.Tenants/max(1, len(t.tenants))) }

// idle finds a connection without calls of the tenant that has most, among those that have their part, or would have more with one
// of their own that comes. There is none if all of these have calls.
func (t *table) idle(own *list.List, now time.Time) *Conn {
	size := func(l *list.List) int {
		if l == own {
			return l.Len() + 1
		}
		return l.Len()
	}
	var most []*list.List
	part := t.part()
	for _, l := range t.tenants {
		if size(l) >= part {
			most = append(most, l)
		}
	}
	slices.SortFunc(most, func(a, b *list.List) int { return cmp.Compare(size(b), size(a)) })
	for _, l := range most {
		if c := t.idleOf(l, now); c != nil {
			return c
		}
	}
	return nil
}

// looks is at how many of a tenant's connections is looked at a time. The next time begins behind them.
const looks = 256

// idleOf finds an idle connection among those of a tenant.
func (t *table) idleOf(l *list.List, now time.Time) *Conn {
	for range min(looks, l.Len()) {
		c := l.Front().Value.(*Conn)
		if c.idle(now.Add(-t.limits.Grace)) {
			return c
		}
		l.MoveToBack(c.place)
	}
	return nil
}

// displace removes a connection that gives way to another.
func (t *table) displace(c *Conn) *Conn {
	t.remove(c)
	t.closed++
	return c
}

// leave takes a connection out of its list.
func (t *table) leave(c *Conn) {
	if c.list == nil {
		return
	}
	c.list.Remove(c.place)
	if c.tenant != "" {
		t.known--
		if c.list.Len() == 0 {
			delete(t.tenants, c.tenant)
		}
	}
	c.list = nil
}

// remove removes a connection. Only the first call counts.
func (t *table) remove(c *Conn) {
	if c.removed {
		return
	}
	c.removed = true
	t.leave(c)
	t.open--
}

func (t *table) stats() Stats {
	return Stats{Open: t.open, Strangers: t.strangers.Len(), Closed: t.closed}
}
