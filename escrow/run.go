package escrow

import "time"

// begin starts entry n: it takes a slot, and each axis books, plans or holds it.
func (p *Pool) begin(now time.Time, n int32) {
	e := &p.entries[n]
	e.state = entryRunning
	e.next = -1
	e.prev = -1
	e.dispatched = now
	e.mark = p.mark
	if !e.turn.IsZero() {
		p.learnPatience(e, true)
	}
	if p.running == 0 {
		p.freed = p.now
	}
	p.running++
	if e.class == background {
		p.background++
	}
	p.letGo(e)
	if p.upstreams != nil {
		p.upstreams.Begin(now, uint32(n), e.upstream, e.cost)
	}
	p.countAt(e.leaf, e.upstream, 1)
	p.refunds = p.refunds.plus(e.refund())
	expected := e.expected()
	for k := range p.axes {
		if a := &p.axes[k]; a.on {
			a.begin(now, e, expected[k])
		}
	}
}

// begin books, plans or holds a call that starts, and is expected to take so much.
func (a *axisBooks) begin(now time.Time, e *entry, expected int64) {
	cost := e.cost[a.axis]
	in := &e.books[a.axis]
	in.era = a.era
	a.pace.take(cost, expected)
	a.pace.ring.Book(cost)
	in.slot = a.pace.ring.Slot()
	switch {
	case a.cal != nil:
		atOnce, later := e.planned(a.axis)
		a.cal.ledger.Book(atOnce * grain)
		in.taken = atOnce
		in.begun = a.cal.ledger.cur
		in.plan = a.cal.lay(now, later*grain, e.perSlot())
	case a.apart():
		a.ledger.Hold(cost)
		in.held = cost
	}
}

// Progress is the usage of a running call so far, and the total that it is now expected to
// take in all: sums, not differences, in tokens, the input included.
type Progress struct {
	// Taken is 0 when nothing is known of it, as of a call that does not stream: it
	// then goes on as it was planned, and Expect is not looked at.
	Taken, Expect int64
	// Speed is how many tokens a second it produces; 0 leaves it as it was.
	Speed int64
	// Run is how long the call will probably run in all; 0 leaves it as it was.
	Run time.Duration
}

// Progress tells of a running call, about four times a second; of one that does not
// run it changes nothing. Under Production it books the tokens produced, and plans the
// rest anew; under Settled it holds more, if the call will take more. The time in a
// slot is charged at once where it turns out longer, and refunded only at the end.
// While calls wait, call Pump afterwards. O(depth · log children), and O(1) if Run
// says nothing new.
func (p *Pool) Progress(now time.Time, h Handle, told Progress) {
	n, ok := p.find(h, entryRunning)
	if !ok {
		return
	}
	p.advance(now)
	e := &p.entries[n]
	p.runsOn(e, told.Run)
	if told.Speed > 0 {
		e.speed = told.Speed
	}
	if told.Taken <= 0 {
		return
	}
	taken := e.after(min(told.Taken, MaxLimit))
	expect := e.after(min(told.Expect, MaxLimit))
	for k := range p.axes {
		if a := &p.axes[k]; a.on && a.era == e.books[k].era {
			a.progress(now, e, taken[k], expect[k])
		}
	}
}

// runsOn charges a running call for the slot that it will hold longer than was
// expected.
func (p *Pool) runsOn(e *entry, run time.Duration) {
	if run <= e.run || p.cfg.Slots == 0 {
		return
	}
	paced := p.paces(e)
	e.run = run
	if e.forced {
		return
	}
	if v := p.moves(e); v > e.virtual {
		p.correct(e.leaf, v-e.virtual)
		e.raised += v - e.virtual
		e.virtual = v
	}
	p.payFloor(e.floored, p.paces(e)-paced)
}

// progress books the usage of a call, if that is booked while it runs, and plans
// or holds the rest.
func (a *axisBooks) progress(now time.Time, e *entry, taken, expect int64) {
	in := &e.books[a.axis]
	taken = max(taken, in.taken)
	rest := max(0, expect-taken)
	switch {
	case a.cal != nil:
		a.cal.replace(in.plan, (taken-in.taken)*grain)
		a.cal.lift(in.plan)
		in.taken = taken
		in.plan = a.cal.lay(now, rest*grain, e.perSlot())
	case a.apart():
		if more := taken + rest - in.held; more > 0 {
			a.ledger.Hold(more)
			in.held += more
		}
	}
}

// Settle ends a running call with its true cost. A charge that was too
// high is given back, one that was too low is debt: in the ledger, in
// the pace, and in the tags, so that declaring too little gains nothing.
// A call that never ran is settled with nothing: then it owes nothing but the time in
// which it had a slot. It reports false, and changes nothing, when there is no such call any more. Call Pump
// afterwards. O(depth · log children).
//
// All of its tokens count in the leaf's share; SettleFair tells how many do.
func (p *Pool) Settle(now time.Time, h Handle, actual Cost) bool {
	return p.SettleFair(now, h, actual, actual[Tokens])
}

// SettleFair is Settle for a call of whose tokens only some count in its leaf's share
// (Call.Fair).
func (p *Pool) SettleFair(now time.Time, h Handle, actual Cost, fair int64) bool {
	n, ok := p.find(h, entryRunning)
	if !ok {
		return false
	}
	p.advance(now)
	e := &p.entries[n]
	for k := range p.axes {
		actual[k] = min(max(actual[k], 0), MaxLimit)
		if a := &p.axes[k]; a.on && a.era == e.books[k].era {
			a.settle(e, actual[k])
		}
	}
	if p.upstreams != nil {
		here := actual
		for k := range here {
			here[k] = max(0, here[k]-e.elsewhere[k])
		}
		p.upstreams.End(now, h.Slot, here)
	}
	run := max(0, now.Sub(e.dispatched))
	if actual[Requests] > 0 { // a call that never ran teaches nothing, nor does a part of one
		p.learnRun(run)
	}
	// by the cost that counts in shares, and by that in the books
	took := int64(0)
	booked := int64(0)
	if !e.forced {
		took = p.virtualCost(actual.counting(fair), run)
		booked = p.virtualCost(actual, run)
	}
	p.running--
	p.freed = p.now
	if e.class == background {
		p.background--
	}
	p.refunds = p.refunds.less(e.refund())
	leaf := e.leaf
	p.countAt(leaf, e.upstream, -1)
	p.ended(leaf)
	p.correct(leaf, took-e.virtual)
	p.noteRefund(e, took)
	p.payFloor(e.floored, booked-p.paces(e))
	p.release(n)
	p.noteIdle()
	return true
}

// noteIdle begins a new idle period when nothing waits or runs any more.
func (p *Pool) noteIdle() {
	if p.running == 0 && p.waiting() == 0 {
		p.idles++
	}
}

// settle corrects the books of one axis to the true cost of a call.
func (a *axisBooks) settle(e *entry, actual int64) {
	in := &e.books[a.axis]
	d := actual - e.cost[a.axis]
	a.pace.correct(d, actual-e.expected()[a.axis])
	a.pace.ring.Correct(in.slot, d)
	switch {
	case a.cal != nil:
		a.cal.replace(in.plan, max(0, actual-in.taken)*grain)
		a.cal.lift(in.plan)
		// Tokens booked as taken that were not: of the input, which was booked at the
		// start, it can be taken back. The rest stays, on the side of the limit.
		if over := in.taken - actual; over > 0 {
			atOnce, _ := e.planned(a.axis)
			a.cal.ledger.Correct(in.begun, -min(over, atOnce)*grain)
		}
	case a.apart():
		a.ledger.Drop(in.held)
		a.ledger.Book(actual)
	}
}
