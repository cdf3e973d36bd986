package escrow

import "time"

// Forecast says what stands in the way of a call, and when its turn would come,
// without offering it.
func (p *Pool) Forecast(now time.Time, c Call) Answer {
	p.advance(now)
	e := p.entryOf(&c)
	return p.forecast(now, &e)
}

func (p *Pool) forecast(now time.Time, e *entry) Answer {
	axis, ok := p.fits(now, e)
	if ok {
		axis = p.blocked
		if axis != Slots && !p.axes[axis].on {
			axis = Slots
		}
	}
	rolling, slot := p.predict(now, e)
	return Answer{Verdict: TooLong, Axis: axis, Behind: p.behind(e.class), Wait: max(rolling, slot)}
}

// predict is when a call would have its turn, if nobody else came. Of the rolling
// axes: what waits, or may come back, with an earlier tag, and the call itself,
// divided by the rate, and not before the ledger has room for it; or what
// running calls are expected to give back, once they end, if that comes sooner. Of
// the slots: a guess from how long calls ran so far.
func (p *Pool) predict(now time.Time, e *entry) (rolling, slot time.Duration) {
	var ahead Cost
	if p.nodes[Root].backlog > 0 {
		ahead = p.ahead(e)
	}
	rolling = p.rolling(now, e, ahead, 0)
	if p.due > 0 && rolling > p.meanRun {
		rolling = min(rolling, max(p.meanRun, p.rolling(now, e, ahead, p.due)))
	}
	if !p.hasSlot(e.class) {
		slot = p.slotWait()
	}
	return rolling, slot
}

// surely reports whether a call is served within a wait even if all that waits
// goes before it: so that most calls are queued without a look at who is ahead.
func (p *Pool) surely(now time.Time, e *entry, wait time.Duration) bool {
	return wait > 0 && p.rolling(now, e, p.nodes[Root].booked, 0) <= wait
}

// rolling is the wait for the rolling axes, with so much before it and so many
// tokens given back.
func (p *Pool) rolling(now time.Time, e *entry, ahead Cost, due int64) time.Duration {
	wait := time.Duration(0)
	for k := range p.axes {
		if Axis(k) != Tokens {
			due = 0
		}
		switch a := &p.axes[k]; {
		case !a.on:
		case ahead[k] == 0:
			wait = max(wait, a.foresee(now, e, e.cost[k], due))
		default:
			wait = max(wait, a.wait(now, e, ahead[k]+e.cost[k], e.cost[k], due))
		}
	}
	return wait
}

// maxWalk bounds how many nodes a prediction looks at.
const maxWalk = 512

// walk sums what will be booked before a call.
type walk struct {
	*tree
	left int // nodes that may still be looked at
}

// ahead is what will be booked before one more call e: in its own leaf, what
// stands before it, and at each level above, of each sibling with an earlier tag,
// what it is entitled to until the tag that the call needs, and the call that
// stands over it.
func (p *Pool) ahead(e *entry) Cost {
	w := walk{&p.tree, maxWalk}
	leaf := &p.nodes[e.leaf]
	need, sum := leaf.backlog, leaf.booked
	if e.class == interactive && leaf.queued[background] > 0 {
		need, sum = w.before(leaf)
	}
	for i := e.leaf; i != Root; i = p.nodes[i].parent {
		nd := &p.nodes[i]
		tail := p.place(i) + min(nd.over(need), maxAhead)
		if i == e.leaf {
			need += e.virtual
		}
		more, cost := w.siblings(i, tail)
		need += more
		for k := range sum {
			sum[k] += cost[k]
		}
	}
	for k := range sum {
		sum[k] = min(sum[k], p.nodes[Root].booked[k])
	}
	return sum
}

// place is the tag at which what stands below node i begins: of its calls, and of
// the places that are kept for it.
func (t *tree) place(i NodeID) int64 {
	nd := &t.nodes[i]
	switch {
	case nd.promised > 0:
		return nd.finish - min(nd.passed, nd.over(nd.promised))
	case nd.waiting() > 0:
		return nd.finish
	}
	return t.startTag(i)
}

// before is what stands before an interactive call in its leaf: the background
// calls do not.
func (w *walk) before(leaf *node) (need int64, sum Cost) {
	for _, n := range [...]int32{leaf.calls[interactive].head, leaf.tickets.head} {
		for ; n >= 0 && w.left > 0; n, w.left = w.entries[n].next, w.left-1 {
			e := &w.entries[n]
			need += e.virtual
			sum[Tokens] += e.cost[Tokens]
			sum[Requests] += e.cost[Requests]
		}
	}
	return need, sum
}

// siblings sums what those beside node i get before a tag, in virtual cost and as
// it will be booked. The heaps are walked no further down than tags are earlier.
func (w *walk) siblings(i NodeID, tail int64) (need int64, sum Cost) {
	p := w.nodes[w.nodes[i].parent].inner
	for r := range p.heaps {
		h := p.heaps[r]
		var stack [64]int32
		top := 0
		if len(h) > 0 {
			top = 1 // the root, at 0
		}
		for top > 0 {
			top--
			at := int(stack[top])
			if h[at].key > tail {
				continue
			}
			if w.left--; w.left < 0 {
				root := &w.nodes[Root]
				return root.backlog, root.booked
			}
			if j := NodeID(h[at].id); j != i {
				w.add(j, tail, &need, &sum)
			}
			for child := fanout*at + 1; child <= fanout*at+fanout && child < len(h) && top < len(stack); child++ {
				stack[top] = int32(child)
				top++
			}
		}
	}
	return need, sum
}

// add counts what node j gets before a tag of its siblings.
func (w *walk) add(j NodeID, tail int64, need *int64, sum *Cost) {
	nd := &w.nodes[j]
	entitled := mulDivCeil(max(0, tail-w.place(j)), int64(nd.weight), int64(WeightOne)) + w.headCost(j)
	if entitled >= nd.backlog {
		*need += nd.backlog
		for k := range sum {
			sum[k] += nd.booked[k]
		}
		return
	}
	*need += entitled
	for k := range sum {
		sum[k] += mulDivCeil(nd.booked[k], entitled, nd.backlog)
	}
}

// foresee is when a call of cost c can go if nobody else comes: exact, by running
// level and ledger ahead, slot by slot. What is held by calls that run leaves
// at no known time; where it stands in the way the answer is two Windows or more.
func (a *axisState) foresee(now time.Time, e *entry, c, due int64) time.Duration {
	sim := a.pace
	sim.level = min(sim.cap, sim.level+due)
	ledger := sim.ring
	if a.ledger != nil {
		ledger = a.ledger
	}
	room, unspent := ledger.Room()+due, sim.limit-sim.ring.booked+due
	if a.cal != nil {
		room = c
	}
	n := int64(len(sim.ring.slots))
	for k := int64(1); k <= 2*n; k++ {
		turn := sim.ring.startOf(sim.ring.cur + k)
		if room >= c {
			at := sim.last.Add(sim.until(sim.need(c)))
			if at.Before(turn) {
				return max(0, at.Sub(now), a.planFree(now, e))
			}
		}
		sim.rise(int64(turn.Sub(sim.last) / time.Microsecond))
		if k <= n { // then all that is booked has left
			room += ledger.slots[(ledger.cur+k)%n]
			unspent += sim.ring.slots[(sim.ring.cur+k)%n]
		}
		if sim.level < sim.cap {
			sim.rate = sim.slack(unspent)
		}
	}
	return 2*Window + sim.until(sim.need(c))
}

// planFree is when the calendar, if there is one, will have room for a call.
func (a *axisState) planFree(now time.Time, e *entry) time.Duration {
	if a.cal == nil {
		return 0
	}
	return max(0, a.cal.freeAt(e.input*grain, (e.expect-e.input)*grain, e.grains()).Sub(now))
}

// wait is how long it takes until total may be dispatched, the last of it being
// a call of cost c.
func (a *axisState) wait(now time.Time, e *entry, total, c, due int64) time.Duration {
	wait := time.Duration(0)
	if lack := total - c + a.pace.need(c) - a.pace.level - due; lack > 0 {
		wait = a.pace.micros(lack, max(1, a.pace.steady()))
	}
	if a.cal != nil {
		return max(wait, a.planFree(now, e))
	}
	// What goes beyond one Window has to wait for what goes before it.
	inWindow := min(total, a.limit) - due
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
	return max(time.Duration(p.waiting()+1)*mean/time.Duration(p.cfg.Slots), time.Millisecond)
}
