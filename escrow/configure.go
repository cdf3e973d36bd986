package escrow

import "time"

// Configure changes the pool's limits while it runs. Calls that run and wait, kept
// places, tags and what was used stay what they are; what waits is weighed anew. An
// axis that is turned on begins as in a new pool. When the accounting changes, what
// was used by the old rule counts by the new one, and what running calls may still
// take counts as used now. It panics on a configuration that Validate refuses. Call
// Pump afterwards.
func (p *Pool) Configure(now time.Time, cfg Config) {
	if err := cfg.Validate(); err != nil {
		panic("escrow: BUG: " + err.Error())
	}
	p.advance(now)
	sameRule := cfg.Accounting == p.cfg.Accounting
	p.cfg, p.minute = cfg, cfg.TPM
	p.slots = cfg.Slots
	p.open = cfg.Slots - cfg.InteractiveReserve
	for k := range p.axes {
		a := &p.axes[k]
		switch limit := cfg.limit(Axis(k)); {
		case a.on && limit > 0 && (sameRule || Axis(k) != Tokens):
			a.resize(limit, cfg)
		case a.on || limit > 0:
			old := *a
			*a = newAxis(now, Axis(k), cfg)
			a.era, a.pace.spent, a.pace.handed = old.era+1, old.pace.spent, old.pace.handed
			if a.on {
				a.pace.slow(p.part)
			}
			if old.on && a.on {
				a.inherit(&old)
			}
		}
	}
	for n := range p.entries {
		switch e := &p.entries[n]; e.state {
		case entryQueued, entryTicket:
			p.count(e, -1)
			p.price(e)
			p.count(e, 1)
		case entryRunning:
			// What moved the tags is not moved again: when the call ends, only what it took
			// beyond what was expected is, in parts of the limits of then.
			if !e.forced {
				e.virtual = p.moves(e)
			}
		}
	}
	p.reorder(Root)
	for i := range p.nodes { // without tokens there are no floors
		if NodeID(i) != Root && p.nodes[i].weight > 0 {
			p.restandFloor(NodeID(i))
		}
	}
}

// Remember books what a call took at a time in the past, so that a pool which is
// begun anew counts what the provider counts still. c is what was used: ring and
// ledger count it as if it had been dispatched, and produced, at that time. What
// has left the Window by now counts nothing; a time to come counts as now. Tags,
// floors and the level of the pace are not touched: a new pool begins with a second
// of the rate, and owes nobody anything.
func (p *Pool) Remember(now, at time.Time, c Cost) {
	p.advance(now)
	for k := range p.axes {
		a := &p.axes[k]
		if !a.on || c[k] <= 0 {
			continue
		}
		a.bookAt(at, min(c[k], MaxLimit))
	}
}
