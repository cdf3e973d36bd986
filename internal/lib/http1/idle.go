package http1

import (
	"slices"
	"sync"
	"time"
)

// idle holds the connections that wait for their next request, by host. The one that was used last is taken first, so that
// those that are not needed grow old.
type idle struct {
	mu    sync.Mutex
	hosts map[string][]*conn // each list from the oldest to the latest
	sweep *time.Timer        // closes the oldest; nil if there are none for it
	// closing says that no request has come since all were to be closed, so none is kept.
	closing bool
}

// take returns a connection that is there still, and on which the server has sent nothing; nil if there is none.
func (i *idle) take(host string, most time.Duration) *conn {
	for {
		c := i.pop(host)
		if c == nil {
			return nil
		}
		if (most == 0 || time.Since(c.since) < most) && c.quiet() {
			c.reused = true
			return c
		}
		_ = c.Close()
	}
}

func (i *idle) pop(host string) *conn {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closing = false
	list := i.hosts[host]
	if len(list) == 0 {
		return nil
	}
	last := len(list) - 1
	c := list[last]
	list[last] = nil
	i.hosts[host] = list[:last]
	return c
}

// put keeps a connection for at most so long; 0 is no bound. It reports false if its host has enough of them, or all are to be closed.
func (i *idle) put(c *conn, perHost int, most time.Duration) bool {
	c.since = time.Now()
	i.mu.Lock()
	defer i.mu.Unlock()
	list := i.hosts[c.host]
	if i.closing || len(list) >= perHost {
		return false
	}
	if i.hosts == nil {
		i.hosts = map[string][]*conn{}
	}
	i.hosts[c.host] = append(list, c)
	if i.sweep == nil && most > 0 {
		i.sweep = time.AfterFunc(most, func() { i.closeOld(most) })
	}
	return true
}

// closeOld closes the connections that have waited for too long, and comes back when the next one has.
func (i *idle) closeOld(most time.Duration) {
	now := time.Now()
	i.mu.Lock()
	old, next := i.removeLocked(now.Add(-most))
	if next.IsZero() {
		i.sweep = nil
	} else {
		i.sweep.Reset(next.Add(most).Sub(now))
	}
	i.mu.Unlock()
	closeConns(old)
}

func (i *idle) closeAll() {
	i.mu.Lock()
	i.closing = true
	all, _ := i.removeLocked(time.Now())
	i.mu.Unlock()
	closeConns(all)
}

// removeLocked takes out the connections that have waited since then or longer. next is since when the one after them has;
// zero if there is none.
func (i *idle) removeLocked(then time.Time) (old []*conn, next time.Time) {
	for host, list := range i.hosts {
		n := 0
		for n < len(list) && !list[n].since.After(then) {
			n++
		}
		old = append(old, list[:n]...)
		list = slices.Delete(list, 0, n)
		i.hosts[host] = list
		if len(list) > 0 && (next.IsZero() || list[0].since.Before(next)) {
			next = list[0].since
		}
	}
	return old, next
}

func closeConns(list []*conn) {
	for _, c := range list {
		_ = c.Close()
	}
}
