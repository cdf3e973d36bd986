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
	same := cfg.Accounting == p.cfg.Accounting
	p.cfg, p.minute = cfg, cfg.TPM
	for k := range p.axes {
		a := &p.axes[k]
		switch limit := cfg.limit(Axis(k)); {
		case a.on && limit > 0 && (same || Axis(k) != Tokens):
			a.resize(limit, cfg.Burst)
		case a.on || limit > 0:
			old := *a
			*a = newAxis(now, Axis(k), cfg)
			a.era = old.era + 1
			if old.on && a.on {
				a.inherit(&old)
			}
		}
	}
	for n := range p.entries {
		e := &p.entries[n]
		if e.state != entryQueued && e.state != entryTicket {
			continue
		}
		p.count(e, -1)
		p.price(e)
		p.count(e, 1)
	}
	for i := range p.nodes {
		if i := NodeID(i); i != Root && p.nodes[i].weight > 0 && p.nodes[i].inner == nil {
			p.restandUp(i)
		}
	}
}

func (a *axisState) resize(limit int64, burst time.Duration) {
	a.limit = limit
	a.pace.resize(limit, burst)
	a.pace.ring.limit = limit
	if a.cal != nil {
		a.cal.ledger.limit = limit * grain
	} else {
		a.ledger.limit = limit
	}
	a.pace.loosen(a.ledger != a.pace.ring)
}

// inherit books in a what another axis counted, and what is held or planned there.
func (a *axisState) inherit(old *axisState) {
	ledger, unit := old.ledger, int64(1)
	if old.cal != nil {
		ledger, unit = old.cal.ledger, grain
	}
	book := func(at time.Time, c int64) {
		c = (c + unit - 1) / unit
		a.pace.ring.BookAt(at, c)
		switch {
		case a.cal != nil:
			a.cal.ledger.BookAt(at, c*grain)
		case a.ledger != a.pace.ring:
			a.ledger.BookAt(at, c)
		}
	}
	n := int64(len(ledger.slots))
	for slot := ledger.cur; slot > ledger.cur-n; slot-- {
		if c := ledger.slots[((slot%n)+n)%n]; c > 0 {
			book(ledger.startOf(slot), c)
		}
	}
	coming := ledger.held
	if old.cal != nil {
		coming = old.cal.ahead
	}
	book(ledger.startOf(ledger.cur), coming)
}
