package escrow

import "time"

// Forecast says what stands in the way of a call of cost c on leaf i, and when
// its turn would come, without offering it.
func (p *Pool) Forecast(now time.Time, i LeafID, c Cost) Answer {
	p.advance(now)
	c = p.Clamp(c)
	axis, ok := p.fits(c)
	if ok && p.q.waiting > 0 {
		axis = p.blocked
	}
	rolling, slot := p.predict(now, i, c)
	return Answer{Verdict: TooLong, Axis: axis, Behind: p.q.waiting > 0, Wait: max(rolling, slot)}
}

// predict is when a call of cost c on leaf i would have its turn, if nobody
// else came. Of the rolling axes: what waits with an earlier tag, and the call
// itself, divided by the rate, and not before the ledger has room for it. Of
// the slots: a guess from how long calls ran so far.
func (p *Pool) predict(now time.Time, i LeafID, c Cost) (rolling, slot time.Duration) {
	for k := range p.axes {
		switch a := &p.axes[k]; {
		case !a.on:
		case p.q.waiting == 0:
			rolling = max(rolling, a.foresee(now, c[k]))
		default:
			rolling = max(rolling, a.wait(now, p.ahead(i, Axis(k))+c[k], c[k]))
		}
	}
	if p.cfg.Slots > 0 && p.running >= p.cfg.Slots {
		slot = p.slotWait()
	}
	return rolling, slot
}

// ahead bounds what waits on axis k with an earlier tag than one more call of
// leaf i would get: all that is queued, and not more than what the waiting
// leaves are entitled to until that tag, which is weight × tag each. O(1).
func (p *Pool) ahead(i LeafID, k Axis) int64 {
	first, ok := p.q.first()
	if !ok {
		return 0
	}
	until := max(0, p.q.tail(i)-p.q.virtual)
	entitled := mulDivCeil(mulDivCeil(until, int64(p.q.weights), int64(WeightOne)), p.axes[k].ledger.limit, tagUnit)
	if entitled > p.queued[k] {
		return p.queued[k]
	}
	// One call of each axis' head may already stand over the entitlement.
	return min(p.queued[k], entitled+p.entries[p.q.leaves[first].head].cost[k])
}

// foresee is when a call of cost c can go if nobody else comes: exact, by running
// level and ledger ahead, slot by slot. What is held by calls that run leaves
// at no known time; where it stands in the way the answer is a Window.
func (a *axisState) foresee(now time.Time, c int64) time.Duration {
	sim := a.pace
	room, unspent := a.ledger.Room(), sim.limit-sim.ring.booked
	n := int64(len(sim.ring.slots))
	for k := int64(1); k <= 2*n; k++ {
		turn := sim.ring.startOf(sim.ring.cur + k)
		if room >= c {
			at := sim.last.Add(sim.until(sim.need(c)))
			if at.Before(turn) {
				return max(0, at.Sub(now))
			}
		}
		sim.refill(turn)
		if k <= n { // then all that is booked has left
			room += a.ledger.slots[(a.ledger.cur+k)%n]
			unspent += sim.ring.slots[(sim.ring.cur+k)%n]
		}
		if sim.level < sim.cap {
			sim.rate = sim.slack(unspent)
		}
	}
	return Window
}

// wait is how long it takes until total may be dispatched, the last of it being
// a call of cost c.
func (a *axisState) wait(now time.Time, total, c int64) time.Duration {
	wait := time.Duration(0)
	if lack := total - c + a.pace.need(c) - a.pace.level; lack > 0 {
		wait = a.pace.micros(lack, max(1, a.pace.steady()))
	}
	// What goes beyond one Window has to wait for what goes before it.
	inWindow := min(total, a.ledger.limit)
	if t, known := a.ledger.FreeAt(inWindow); known {
		wait = max(wait, t.Sub(now))
	}
	return wait
}

// slotWait guesses when a slot frees for one more: the mean run of past calls,
// shared by the slots, for each that waits and this one.
func (p *Pool) slotWait() time.Duration {
	mean := p.meanRun
	if mean == 0 {
		mean = time.Second
	}
	return max(time.Duration(p.q.waiting+1)*mean/time.Duration(p.cfg.Slots), time.Millisecond)
}
