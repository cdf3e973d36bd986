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
	sweep *time.Timer        // closes the oldest; nil if there are none
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

// put keeps a connection for at most so long; 0 is no bound. It reports false if its host has enough of them.
func (i *idle) put(c *conn, perHost int, most time.Duration) bool {
	c.since = time.Now()
	i.mu.Lock()
	defer i.mu.Unlock()
	list := i.hosts[c.host]
	if len(list) >= perHost {
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

// closeOld closes the connections that have waited for too long, and comes back for the others.
func (i *idle) closeOld(most time.Duration) {
	i.mu.Lock()
	now := time.Now()
	next := time.Duration(0)
	var old []*conn
	for host, list := range i.hosts {
		n := 0
		for n < len(list) && now.Sub(list[n].since) >= most {
			n++
		}
		old = append(old, list[:n]...)
		if n == len(list) {
			delete(i.hosts, host)
			continue
		}
		i.hosts[host] = slices.Clone(list[n:])
		left := most - now.Sub(list[n].since)
		if next == 0 || left < next {
			next = left
		}
	}
	i.sweep = nil
	if next > 0 {
		i.sweep = time.AfterFunc(next, func() { i.closeOld(most) })
	}
	i.mu.Unlock()
	closeConns(old)
}

func (i *idle) closeAll() {
	i.mu.Lock()
	var all []*conn
	for _, list := range i.hosts {
		all = append(all, list...)
	}
	i.hosts = nil
	if i.sweep != nil {
		i.sweep.Stop()
		i.sweep = nil
	}
	i.mu.Unlock()
	closeConns(all)
}

func closeConns(list []*conn) {
	for _, c := range list {
		_ = c.Close()
	}
}
