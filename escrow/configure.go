package escrow

import "time"

// Configure changes the pool's limits while it runs. Calls that run and wait, kept
// places, tags and usage stay as they are; waiting calls are weighed anew. An
// axis that is turned on begins as in a new pool. When the accounting changes, usage
// under the old rule counts under the new one, and the tokens that running calls may still
// take counts as used now. It panics on a configuration that Validate refuses. Call
// Pump afterwards.
func (p *Pool) Configure(now time.Time, cfg Config) {
	if err := cfg.Validate(); err != nil {
		panic("escrow: BUG: " + err.Error())
	}
	p.advance(now)
	sameRule := cfg.Accounting == p.cfg.Accounting
	p.cfg = cfg
	p.minute = cfg.TPM
	p.rules = cfg.Rules()
	p.Narrow(cfg.Slots)
	for k := range p.axes {
		a := &p.axes[k]
		switch limit := cfg.Minute()[k]; {
		case a.on && limit > 0 && (sameRule || Axis(k) == Requests):
			a.resize(limit, cfg)
		case a.on || limit > 0:
			old := *a
			*a = newAxis(now, Axis(k), cfg)
			a.era = old.era + 1
			a.pace.spent = old.pace.spent
			a.pace.handed = old.pace.handed
			if a.on {
				a.pace.slow(p.part)
			}
			if old.on && a.on {
				a.inherit(&old)
			}
		}
	}
	for n := range p.entries {
		// The tags do not move again by the same cost: when the call ends, only the difference
		// from the expectation moves them, in parts of the limits of then.
		if e := &p.entries[n]; e.state == entryRunning && !e.forced {
			e.virtual = p.moves(e)
		}
	}
	p.weighAll()
	p.reorder(Root)
	if p.parted {
		p.restandAll()
	}
	for i := range p.nodes { // without tokens there are no floors
		if NodeID(i) != Root && p.nodes[i].weight > 0 {
			p.restandFloor(NodeID(i))
		}
	}
}

// Remember books the cost of a call at a time in the past, so that a pool which is
// begun anew counts all that the provider still counts. c is the use: ring and
// ledger count it as if it had been dispatched, and produced, at that time. What
// has left the Window by now counts nothing; a time to come counts as now. Tags,
// floors and the level of the pace are not touched: a new pool begins with a second
// of the rate (but see Recalled), and owes nobody anything.
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

// Recalled tells the pool that its bookings are all use of the last Window. So a new pool hands out its Burst at once, as an idle one.
func (p *Pool) Recalled(now time.Time) {
	p.advance(now)
	for k := range p.axes {
		if a := &p.axes[k]; a.on && !a.pace.granted {
			a.pace.level = max(a.pace.level, min(a.pace.burst, a.pace.limit-a.pace.ring.booked))
		}
	}
}
