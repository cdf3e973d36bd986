package escrow

import "time"

// Produce tells how many tokens a running call has taken so far: the whole, not
// the difference. Under Production they are booked as of now; else nothing
// changes. It may be called as often as one likes; a few times a second will
// do. While calls wait, call Pump afterwards: what was held leaves at no known
// time, what is booked does.
func (p *Pool) Produce(now time.Time, h Handle, total int64) {
	n, ok := p.find(h, entryRunning)
	a := &p.axes[Tokens]
	if !ok || !a.on || p.cfg.Accounting != Production {
		return
	}
	p.advance(now)
	p.produce(&p.entries[n], total)
}

// produce moves tokens from what e holds into the current slot. What is
// produced beyond the hold is counted too: it is debt.
func (p *Pool) produce(e *entry, total int64) {
	d := total - e.produced
	if d <= 0 {
		return
	}
	l := p.axes[Tokens].ledger
	l.Drop(min(d, max(0, e.cost[Tokens]-e.produced)))
	l.Book(d)
	e.produced = total
	if l.Slot() == e.slots[Tokens] {
		e.first = total
	}
}

// Settle ends a running call with what it really took. What was charged too
// much is given back, what was charged too little is debt: in the ledger, in
// the pace, and in the leaf's tag, so that declaring too little gains nothing.
// It reports false, and changes nothing, when there is no such call any more.
// Call Pump afterwards.
func (p *Pool) Settle(now time.Time, h Handle, actual Cost) bool {
	n, ok := p.find(h, entryRunning)
	if !ok {
		return false
	}
	p.advance(now)
	e := &p.entries[n]
	for k := range p.axes {
		actual[k] = min(max(actual[k], 0), MaxLimit)
		if p.axes[k].on {
			p.settleAxis(Axis(k), e, actual[k])
		}
	}
	took := p.virtualCost(actual)
	p.q.settle(e.leaf, took-e.charged)
	p.running--
	p.due -= e.due
	if actual != (Cost{}) { // a call that never ran teaches nothing
		p.q.leaves[e.leaf].learn(took, p.virtualCost(e.cost))
		p.learnRun(now.Sub(e.dispatched))
	}
	p.release(n)
	return true
}

func (p *Pool) learnRun(run time.Duration) {
	if p.meanRun == 0 {
		p.meanRun = run
	}
	p.meanRun += (run - p.meanRun) / 16
}

func (p *Pool) settleAxis(k Axis, e *entry, actual int64) {
	a := &p.axes[k]
	d := actual - e.cost[k]
	a.pace.correct(d, actual-e.expected(k))
	a.pace.ring.Correct(e.slots[k], d)
	if a.ledger == a.pace.ring {
		return
	}
	if p.cfg.Accounting == Production {
		p.produce(e, actual)
		a.ledger.Drop(max(0, e.cost[k]-e.produced))
		// What was booked as produced and was not: of the dispatch slot it can be
		// taken back. Later slots keep it, on the side of the limit.
		if over := e.produced - actual; over > 0 {
			a.ledger.Correct(e.slots[k], -min(over, e.first))
		}
		return
	}
	a.ledger.Drop(e.cost[k])
	a.ledger.Book(actual)
}
