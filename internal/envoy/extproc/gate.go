package extproc

import (
	"context"
	"sync"
)

// gate counts calls in flight, and bounds them.
type gate struct {
	mu    sync.Mutex
	calls int64
	empty chan struct{} // closed once calls is 0; nil while nobody waits for that
}

// enter lets a call in, if there are fewer than most.
func (g *gate) enter(most int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calls >= most {
		return false
	}
	g.calls++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls--
	if g.calls == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// Drain waits until no call is in flight, or ctx has ended.
func (g *gate) Drain(ctx context.Context) error {
	g.mu.Lock()
	if g.calls == 0 {
		g.mu.Unlock()
		return nil
	}
	if g.empty == nil {
		g.empty = make(chan struct{})
	}
	empty := g.empty
	g.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
