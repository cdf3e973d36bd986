package governor

import "github.com/llmgov/llmgov/escrow/adaptive"

// Load is the load of the servers behind a pool, as they tell it themselves.
type Load = adaptive.Load

// ServersLoaded takes in the load of the servers behind a pool. An adaptive limit goes by it, beside the latency of calls. For an
// unknown pool, and for one whose limit is fixed, it does nothing.
func (g *Governor) ServersLoaded(pool string, load Load) {
	now := g.lock()
	defer g.unlock()
	view := g.table.pools[pool]
	if view == nil || view.slots.Limiter == nil {
		return
	}
	p := view.pool
	_, inFlight := p.slots.InUse()
	if inFlight > 0 { // else it says nothing, and need not be written down
		g.queueDetail(Event{Kind: EventLoaded, Request: Request{Pool: pool}, Load: load})
	}
	p.slots.Loaded(now, load)
	g.pump(p, now)
}
