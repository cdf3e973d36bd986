package escrow

import "time"

// Forecast says what stands in the way of a call of cost c on leaf i, and when
// its turn would come, without offering it.
func (p *Pool) Forecast(now time.Time, i LeafID, c Cost) Answer {
	p.advance(now)
	c = p.Clamp(c)
	axis, ok := p.fits(c)
	if ok {
		axis = p.blocked
		if axis != Slots && !p.axes[axis].on {
			axis = Slots
		}
	}
	rolling, slot := p.predict(now, i, c)
	return Answer{Verdict: TooLong, Axis: axis, Behind: p.q.waiting > 0, Wait: max(rolling, slot)}
}

// predict is when a call of cost c on leaf i would have its turn, if nobody
// else came. Of the rolling axes: what waits with an earlier tag, and the call
// itself, divided by the rate, and not before the ledger has room for it; or what
// running calls are expected to give back, once they end, if that comes sooner. Of
// the slots: a guess from how long calls ran so far.
func (p *Pool) predict(now time.Time, i LeafID, c Cost) (rolling, slot time.Duration) {
	rolling = p.rolling(now, i, c, 0)
	if p.due > 0 && rolling > p.meanRun {
		rolling = min(rolling, max(p.meanRun, p.rolling(now, i, c, p.due)))
	}
	if p.cfg.Slots > 0 && p.running >= p.cfg.Slots {
		slot = p.slotWait()
	}
	return rolling, slot
}

// rolling is the wait for the rolling axes, with so many tokens given back.
func (p *Pool) rolling(now time.Time, i LeafID, c Cost, due int64) time.Duration {
	wait := time.Duration(0)
	for k := range p.axes {
		if Axis(k) != Tokens {
			due = 0
		}
		switch a := &p.axes[k]; {
		case !a.on:
		case p.q.waiting == 0:
			wait = max(wait, a.foresee(now, c[k], due))
		default:
			wait = max(wait, a.wait(now, p.ahead(i, Axis(k))+c[k], c[k], due))
		}
	}
	return wait
}

// maxWalk bounds how many waiting leaves a prediction looks at.
const maxWalk = 512

// ahead is what waits on axis k with an earlier tag than one more call of leaf i
// would get: of each leaf whose head is earlier, what it is entitled to until that
// tag, and the call that stands over it. The heap is walked no further down than
// tags are earlier; where too many are, all that is queued counts.
func (p *Pool) ahead(i LeafID, k Axis) int64 {
	tail := p.q.tail(i)
	limit := p.axes[k].ledger.limit
	var stack [64]int
	sum, walked, top := int64(0), 0, 0
	if len(p.q.heap) > 0 {
		top = 1 // the root, at 0
	}
	for top > 0 {
		top--
		at := stack[top]
		j := p.q.heap[at]
		l := &p.q.leaves[j]
		if l.finish > tail {
			continue
		}
		if walked++; walked > maxWalk {
			return p.queued[k]
		}
		virtual := l.backlog
		if j != i {
			entitled := mulDivCeil(mulDivCeil(tail-l.finish, int64(l.weight), int64(WeightOne)), wholeRatio, l.ratio)
			if head := p.q.headCost(j); entitled < l.backlog-head {
				virtual = entitled + head
			}
		}
		if sum += mulDivCeil(virtual, limit, tagUnit); sum >= p.queued[k] {
			return p.queued[k]
		}
		for child := 2*at + 1; child <= 2*at+2 && child < len(p.q.heap) && top < len(stack); child++ {
			stack[top] = child
			top++
		}
	}
	return sum
}

// foresee is when a call of cost c can go if nobody else comes: exact, by running
// level and ledger ahead, slot by slot. What is held by calls that run leaves
// at no known time; where it stands in the way the answer is two Windows or more.
func (a *axisState) foresee(now time.Time, c, due int64) time.Duration {
	sim := a.pace
	sim.level = min(sim.cap, sim.level+due)
	room, unspent := a.ledger.Room()+due, sim.limit-sim.ring.booked+due
	n := int64(len(sim.ring.slots))
	for k := int64(1); k <= 2*n; k++ {
		turn := sim.ring.startOf(sim.ring.cur + k)
		if room >= c {
			at := sim.last.Add(sim.until(sim.need(c)))
			if at.Before(turn) {
				return max(0, at.Sub(now))
			}
		}
		sim.rise(int64(turn.Sub(sim.last) / time.Microsecond))
		if k <= n { // then all that is booked has left
			room += a.ledger.slots[(a.ledger.cur+k)%n]
			unspent += sim.ring.slots[(sim.ring.cur+k)%n]
		}
		if sim.level < sim.cap {
			sim.rate = sim.slack(unspent)
		}
	}
	return 2*Window + sim.until(sim.need(c))
}

// wait is how long it takes until total may be dispatched, the last of it being
// a call of cost c.
func (a *axisState) wait(now time.Time, total, c, due int64) time.Duration {
	wait := time.Duration(0)
	if lack := total - c + a.pace.need(c) - a.pace.level - due; lack > 0 {
		wait = a.pace.micros(lack, max(1, a.pace.steady()))
	}
	// What goes beyond one Window has to wait for what goes before it.
	inWindow := min(total, a.ledger.limit) - due
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
