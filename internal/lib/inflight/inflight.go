// Package inflight counts calls in flight, bounds them, and lets a shutdown wait for their ends.
package inflight

import (
	"context"
	"sync"
)

// Count is how many calls are in flight. The zero Count has none. It is safe for concurrent use.
type Count struct {
	mu    sync.Mutex
	calls int64
	empty chan struct{} // guarded by mu: closed once calls is 0; nil while nobody waits for that
}

// Enter counts one more call, if fewer than most are in flight.
func (c *Count) Enter(most int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls >= most {
		return false
	}
	c.calls++
	return true
}

// Leave counts one call less. It comes after everything else that the call does.
func (c *Count) Leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls--
	if c.calls == 0 && c.empty != nil {
		close(c.empty)
		c.empty = nil
	}
}

// Drain waits until no call is in flight, or ctx has ended. New calls are for others to keep out.
func (c *Count) Drain(ctx context.Context) error {
	c.mu.Lock()
	if c.calls == 0 {
		c.mu.Unlock()
		return nil
	}
	if c.empty == nil {
		c.empty = make(chan struct{})
	}
	empty := c.empty
	c.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
