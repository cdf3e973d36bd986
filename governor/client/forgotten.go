package client

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// lookEvery is how often leases are ended that the garbage collector has found.
const lookEvery = 10 * time.Second

// lost has the leases that the garbage collector has found. They are ended by a timer of the program's, and not where they are found: a
// governor in a bubble of testing/synctest must not be called from outside.
type lost struct {
	open  atomic.Int64 // leases that are watched
	found atomic.Int64

	mu      sync.Mutex
	list    []*hold     // guarded by mu
	timer   *time.Timer // guarded by mu; nil before the first lease
	stopped bool        // guarded by mu
}

// keep has a lease end by itself if it is held for too long.
func (c *Client) keep(h *hold) {
	h.mu.Lock() // MaxHold may be over at once
	defer h.mu.Unlock()
	h.client = c
	h.begun = time.Now()
	if c.maxHold > 0 {
		h.late = time.AfterFunc(c.maxHold, func() { h.expire("was held for longer than MaxHold") })
	}
}

// watch has the lease end by itself if nobody can end it any more.
func (c *Client) watch(l *Lease) {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended { // by MaxHold
		return
	}
	h.watch = runtime.AddCleanup(l, (*hold).unreachable, h)
	if c.lost.open.Add(1) == 1 {
		c.lost.begin()
	}
}

// HeldBy has a lease count as forgotten when nobody can reach holder any more, whoever can reach the lease: for a body, say, that keeps it.
func HeldBy[T any](l *Lease, holder *T) {
	h := l.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watch == (runtime.Cleanup{}) || h.ended {
		return
	}
	h.watch.Stop()
	h.watch = runtime.AddCleanup(holder, (*hold).unreachable, h)
}

// unreachable notes that nobody can end the lease.
func (h *hold) unreachable() {
	o := &h.client.lost
	o.mu.Lock()
	o.list = append(o.list, h)
	o.mu.Unlock()
}

// begin looks again and again, while there are leases.
func (o *lost) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.stopped:
	case o.timer == nil:
		o.timer = time.AfterFunc(lookEvery, o.look)
	default:
		o.timer.Reset(lookEvery)
	}
}

func (o *lost) look() {
	o.mu.Lock()
	found := o.list
	o.list = nil
	o.mu.Unlock()
	for _, h := range found {
		h.expire("was forgotten: nobody can end it any more. Close each one")
	}
	if o.open.Load() > 0 {
		o.begin()
	}
}

func (o *lost) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopped = true
	if o.timer != nil {
		o.timer.Stop()
	}
}

// expire ends the lease in place of its holder.
func (h *hold) expire(why string) {
	g := h.held.Grant()
	if !h.end(End{Outcome: Expired}, errExpired(g.ID)) {
		return
	}
	c := h.client
	c.lost.found.Add(1)
	c.log.Error("a lease "+why, "id", g.ID, "tenant", g.Tenant, "pool", g.Pool, "held", time.Since(h.begun))
}
