package governor

import (
	"context"
	"time"
)

// Pause waits for a time until which a call can go nowhere, without holding anything. The call counts among the MaxQueue that may wait
// for its pool, and its wait ends with what ends theirs.
func (g *Governor) Pause(ctx context.Context, req *Request, until time.Time) *Refusal {
	w := walk{g: g, ctx: ctx, spot: g.table.Load().find(req)}
	if w.tenant == nil || !until.After(g.clock.Now()) {
		return nil // as it is told when it asks
	}
	p := w.pool.pool
	p.mu.Lock()
	waiting := p.paused + p.escrow.Waiting()
	full := waiting >= p.rules.MaxQueue
	if !full {
		p.paused++
	}
	p.mu.Unlock()
	rej := refuseCrowded(req, waiting)
	if full {
		return rej
	}
	why := w.park(newWaiter(), until)
	p.mu.Lock()
	p.paused--
	p.mu.Unlock()
	if why == timedOut {
		return nil
	}
	rej.because(why)
	return rej
}
