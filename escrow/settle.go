package escrow

import "time"

// Progress is what a running call has taken so far, and what it is now expected to
// take: wholes, not differences, in tokens with the input.
type Progress struct {
	// Taken is 0 when nothing is known of it, as of a call that does not stream: it
	// then goes on as it was planned.
	Taken, Expect int64
	// Speed is how many tokens a second it produces; 0 leaves it as it was.
	Speed int64
	// Run is how long the call will probably run in all; 0 leaves it as it was.
	Run time.Duration
}

// Progress tells of a running call, about four times a second. Under Production it
// books what was produced, and plans the rest anew; under Settled it holds more,
// if the call will take more. What a slot is charged for only grows: less is
// refunded at the end. While calls wait, call Pump afterwards.
func (p *Pool) Progress(now time.Time, h Handle, told Progress) {
	n, ok := p.find(h, entryRunning)
	if !ok {
		return
	}
	p.advance(now)
	e := &p.entries[n]
	if told.Run > e.run && p.cfg.Slots > 0 {
		e.run = told.Run
		if v := p.virtualCost(e.expect, e.cost[Requests], e.run); v > e.virtual {
			p.correct(e.leaf, v-e.virtual)
			p.payFloor(e.floored, v-e.virtual)
			e.virtual = v
		}
	}
	if told.Speed > 0 {
		e.speed = told.Speed
	}
	taken := min(max(told.Taken, e.taken), MaxLimit)
	rest := max(0, min(told.Expect, MaxLimit)-taken)
	switch a := &p.axes[Tokens]; {
	case !a.on || e.eras[Tokens] != a.era || told.Taken <= 0:
	case a.cal != nil:
		a.cal.replace(e.plan, (taken-e.taken)*grain)
		a.cal.lift(e.plan)
		e.taken = taken
		pace := e.grains()
		if e.speed <= 0 {
			pace = rest * grain
		}
		e.plan = a.cal.lay(now, rest*grain, pace)
	case a.ledger != a.pace.ring:
		if more := taken + rest - e.held; more > 0 {
			a.ledger.Hold(more)
			e.held += more
		}
	}
}

// Settle ends a running call with what it really took. What was charged too
// much is given back, what was charged too little is debt: in the ledger, in
// the pace, and in the tags, so that declaring too little gains nothing.
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
		if p.axes[k].on && p.axes[k].era == e.eras[k] {
			p.settleAxis(Axis(k), e, actual[k])
		}
	}
	took := int64(0)
	if actual != (Cost{}) { // a call that never ran owes nothing, and teaches nothing
		run := max(0, now.Sub(e.dispatched))
		took = p.virtualCost(actual[Tokens], actual[Requests], run)
		p.learnRun(run)
	}
	p.running--
	p.due -= e.due()
	leaf := e.leaf
	p.ended(leaf)
	p.correct(leaf, took-e.virtual)
	p.payFloor(e.floored, took-e.virtual)
	p.release(n)
	p.rest()
	return true
}

// rest begins a new idle period when nothing waits or runs any more.
func (p *Pool) rest() {
	if p.running == 0 && p.waiting() == 0 {
		p.idles++
	}
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
	switch {
	case a.cal != nil:
		a.cal.replace(e.plan, max(0, actual-e.taken)*grain)
		a.cal.lift(e.plan)
		// What was booked as taken and was not: of the input, which was booked at the
		// start, it can be taken back. The rest stays, on the side of the limit.
		if over := e.taken - actual; over > 0 {
			a.cal.ledger.Correct(e.first, -min(over, e.input)*grain)
		}
	case a.ledger != a.pace.ring:
		a.ledger.Drop(e.held)
		a.ledger.Book(actual)
	}
}
