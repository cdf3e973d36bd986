package escrow

import (
	"time"

	"github.com/llmgov/llmgov/internal/lib/muldiv"
)

// farTurn is the length of a wait up to which its prediction is believed.
const farTurn = 15 * time.Second

// wait is the predicted time until a call's turn.
func (p *Pool) wait(now time.Time, e *entry) time.Duration {
	least, slot := p.predict(now, e, 0, forever)
	return max(p.turn(now, e, least), slot)
}

// turn is how long a call will wait for the rolling axes, if others go on coming as they did lately.
// It would wait least if nobody else came. Those who come until its turn make that later, and
// then more of them come: so the turn is moved back, until it stays.
func (p *Pool) turn(now time.Time, e *entry, least time.Duration) time.Duration {
	if p.nodes[Root].backlog == 0 {
		return least
	}
	leaf := &p.nodes[e.leaf]
	own := leaf.flow.needs(p.now, leaf.expected()+e.virtual)
	latest := max(least, farTurn, own+own/4) // the leaf, too, will go on as it did
	turn := least
	for range mostRounds {
		later, _ := p.predict(now, e, turn, forever)
		later = min(later, latest)
		if later <= turn+turn/32 {
			return max(turn, later)
		}
		turn = later
	}
	return turn
}

// mostRounds bounds how often a turn is moved back.
const mostRounds = 8

// predict is how long a call would wait for its turn, if others came as they did lately for a time,
// and then nobody else. Of the rolling axes: until the calls that wait, may come back or come, with an
// earlier tag, and the call itself, have gone at the rate of the limit, and not before the
// ledger has room for it; or until calls that run have ended and given back what they are
// expected to, if that is sooner. Of the slots: a guess from how long calls ran so far. Of its leaf's kept places those count
// that are promised within a time.
func (p *Pool) predict(now time.Time, e *entry, coming, promised time.Duration) (rolling, slot time.Duration) {
	var ahead Cost
	if p.nodes[Root].backlog > 0 {
		ahead = p.ahead(e, coming, now.Add(promised))
	}
	rolling = p.rolling(now, e, ahead, Cost{})
	if p.refunds != (Cost{}) && rolling > p.meanRun {
		rolling = min(rolling, max(p.meanRun, p.rolling(now, e, ahead, p.refunds)))
	}
	by, at := p.keptBy(e.leaf, e.class, e)
	if by != nil || !p.Free() {
		slot = p.slotWait(at)
	}
	if by.rises() && p.Free() {
		slot = max(slot, p.ripensAt(by, e).Sub(now))
	}
	return rolling, slot
}

// surely reports whether a call is served within wait even if everything that waits goes before it.
// So most calls are queued without looking at the calls ahead of them.
func (p *Pool) surely(now time.Time, e *entry, wait time.Duration) bool {
	return wait > 0 && p.rolling(now, e, p.nodes[Root].booked, Cost{}) <= wait
}

// rolling is the wait for the rolling axes, with so much going before the call and so
// much given back.
func (p *Pool) rolling(now time.Time, e *entry, ahead, refund Cost) time.Duration {
	wait := time.Duration(0)
	for k := range p.axes {
		switch a := &p.axes[k]; {
		case !a.on:
		case ahead[k] == 0:
			wait = max(wait, a.waitAlone(now, e, refund[k]))
		default:
			wait = max(wait, a.waitBehind(now, e, ahead[k], refund[k]))
		}
	}
	if p.upstreams != nil {
		before := p.waitingVia.within(e.via)
		for k := range before {
			before[k] = min(before[k], ahead[k])
		}
		wait = max(wait, p.upstreams.Wait(now, e.via, e.cost, before))
	}
	held := p.heldFor(now)
	if ahead == (Cost{}) {
		return max(wait, held)
	}
	return wait + held // the calls before it begin to go then
}

// maxWalk bounds how many nodes and calls a prediction looks at: the backlog beyond
// counts as if all of it went before.
const maxWalk = 512

// walk sums the calls that will go before a call.
type walk struct {
	*tree
	left   int           // how many may still be looked at
	coming time.Duration // for which others come as they did lately
}

// ahead is the amount that will be booked before one more call e, which is at the end of its
// leaf: the calls that stand before it there, and at each level above, of each sibling with an
// earlier tag, its service until the tag at which the call begins (until).
// need is the same as a virtual cost: at which tag the node above will have served it all.
func (p *Pool) ahead(e *entry, coming time.Duration, promised time.Time) Cost {
	w := walk{&p.tree, maxWalk, coming}
	leaf := &p.nodes[e.leaf]
	var need int64
	last := leaf.calls[interactive].tail
	if !e.turn.IsZero() || e.class == interactive && (leaf.queued[background] > 0 || last >= 0 && p.entries[last].below > e.below) {
		need = w.before(leaf, e, promised)
	} else {
		need = w.here(leaf, promised)
	}
	sum := leaf.bookedFor(need)
	for i := e.leaf; i != Root; i = p.nodes[i].parent {
		nd := &p.nodes[i]
		tail := p.keptTag(i) + min(nd.over(need), maxAhead)
		more, cost := w.siblings(i, tail)
		need += more
		sum = sum.plus(cost)
	}
	for k := range sum {
		if coming == 0 {
			sum[k] = min(sum[k], p.nodes[Root].booked[k])
		}
	}
	return sum
}

// here sums the calls that wait in a leaf, and those of its kept places that are promised by a time. Beyond half a walk of these,
// the others count as if they were spread evenly until the last one.
func (w *walk) here(leaf *node, by time.Time) int64 {
	if last := leaf.tickets.tail; last < 0 || !w.entries[last].promised.After(by) {
		return leaf.expected()
	}
	need := leaf.backlog - leaf.promised
	for n := leaf.tickets.head; !w.entries[n].promised.After(by); n = w.entries[n].next {
		if w.left == maxWalk/2 {
			at := w.entries[n].promised
			return need + muldiv.Floor(max(0, leaf.expected()-need), int64(by.Sub(at)), int64(w.entries[leaf.tickets.tail].promised.Sub(at)))
		}
		need += w.expects(&w.entries[n])
		w.left--
	}
	return need
}

// before sums the calls that stand before a call in its leaf: before an interactive one, the background
// calls and those of lower priorities do not; before one that has come back, only those whose turn is earlier.
func (w *walk) before(leaf *node, e *entry, by time.Time) (need int64) {
	for _, n := range [...]int32{leaf.calls[interactive].head, leaf.tickets.head} {
		for ; n >= 0 && w.left > 0; n, w.left = w.entries[n].next, w.left-1 {
			other := &w.entries[n]
			if other.state == entryTicket && other.promised.After(by) {
				break
			}
			if other.state == entryQueued && other.class == e.class && other.below != e.below {
				if other.below < e.below {
					need += w.expects(other)
				}
				continue
			}
			if !e.turn.IsZero() && (other.turn.IsZero() || !other.turn.Before(e.turn)) {
				continue
			}
			need += w.expects(other)
		}
	}
	return need
}

// siblings sums the service of those beside node i before a tag, in virtual cost and as
// it will be booked. The heaps are walked no further down than tags are earlier, so
// that it costs as many looks as there are siblings before the call, not as there are.
func (w *walk) siblings(i NodeID, tail int64) (need int64, sum Cost) {
	up := &w.nodes[w.nodes[i].parent]
	p := up.inner
	own := &w.nodes[i]
	// The demand to come of those that do not stand there now.
	light := up.flow.within(w.now, w.coming) - own.flow.within(w.now, w.coming)
	weights := p.weights - own.weight
	for _, h := range p.lanes.each() {
		var stack [64]int32 // enough for a heap of 2³¹: at most 3 are added a level
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
			w.left--
			if w.left < 0 {
				root := &w.nodes[Root]
				return root.backlog, root.booked
			}
			if j := NodeID(h[at].id); j != i {
				more, cost := w.until(j, tail)
				need += more
				sum = sum.plus(cost)
				light -= w.nodes[j].flow.within(w.now, w.coming)
				weights -= w.nodes[j].weight
			}
			for child := fanout*at + 1; child <= fanout*at+fanout && child < len(h) && top < len(stack); child++ {
				stack[top] = int32(child)
				top++
			}
		}
	}
	if light > 0 && weights > 0 {
		light = min(light, muldiv.Ceil(max(0, tail-w.virtualOf(p)), weights, weightOne))
		need += light
		sum = sum.plus(w.nodes[Root].bookedFor(light))
	}
	return need, sum
}

// until is the service of node j before a tag of its siblings: of its backlog, and of all that
// comes to it. The call that begins before the tag is served whole: the first one, if that ends
// after the tag, or else one that is as large, because others are not looked at.
func (w *walk) until(j NodeID, tail int64) (need int64, sum Cost) {
	nd := &w.nodes[j]
	first := w.headCost(j)
	need = muldiv.Ceil(max(0, tail-w.keptTag(j)), nd.weight, weightOne)
	if need < first {
		need = first
	} else {
		need += first
	}
	need = min(need, nd.expected()+nd.flow.within(w.now, w.coming))
	return need, nd.bookedFor(need)
}

// bookedFor is the cost at which a virtual cost is booked, below a node where calls wait or places are kept: as
// these are on average.
func (n *node) bookedFor(virtual int64) (c Cost) {
	if virtual == n.backlog || n.backlog <= 0 {
		return n.booked
	}
	for k := range c {
		c[k] = muldiv.Ceil(n.booked[k], virtual, n.backlog)
	}
	return c
}

// waitAlone is how long a call waits if nothing goes before it and nobody else comes:
// exact, by running level and ledger ahead, slot by slot. Amounts held by calls that
// run leave at no known time; if these stand in the way the answer is two Windows or
// more.
func (a *axisBooks) waitAlone(now time.Time, e *entry, refund int64) time.Duration {
	c := e.cost[a.axis]
	sim := a.pace
	if sim.granted {
		sim.burst = max(sim.burst, c) // no call goes at less than its cost
	}
	sim.level = min(sim.burst, sim.level+sim.back(refund))
	moves := time.Duration(0)
	if later, comes := sim.comes(c - sim.level); comes {
		sim.level = c
		moves = sim.grantWait(e, later)
	}
	if sim.granted {
		sim.rate = sim.coming(max(0, c-sim.level))
	}
	ledger := sim.ring
	if a.ledger != nil {
		ledger = a.ledger
	}
	room := ledger.Room() + refund
	unspent := sim.limit - sim.ring.booked + refund
	if a.cal != nil {
		room = c // the calendar is asked, once the level suffices
	}
	n := int64(len(sim.ring.slots))
	for k := int64(1); k <= 2*n; k++ {
		turn := sim.ring.startOf(sim.ring.cur + k)
		if room >= c {
			at := sim.last.Add(sim.until(sim.need(c)))
			if at.Before(turn) {
				return max(moves, at.Sub(now), a.planFree(now, e))
			}
		}
		sim.rise(int64(turn.Sub(sim.last) / time.Microsecond))
		if k <= n { // then all that is booked has left
			room += *ledger.at(ledger.cur + k - n)
			unspent += *sim.ring.at(sim.ring.cur + k - n)
		}
		if sim.level < sim.burst && !sim.granted {
			sim.rate = sim.idleRate(unspent)
		}
	}
	return 2*Window + sim.until(sim.need(c))
}

// planFree is how long until the calendar, if there is one, has room for a call.
func (a *axisBooks) planFree(now time.Time, e *entry) time.Duration {
	if a.cal == nil {
		return 0
	}
	atOnce, later := e.planned(a.axis)
	return max(0, a.cal.freeAt(atOnce*grain, later*grain, e.perSlot()).Sub(now))
}

// waitBehind is how long a call waits for its turn behind so much: until all of it
// was paced at the rate of a full pool, and the account has room.
func (a *axisBooks) waitBehind(now time.Time, e *entry, ahead, refund int64) time.Duration {
	c := e.cost[a.axis]
	wait := time.Duration(0)
	lack := ahead + a.pace.need(c) - a.pace.level - a.pace.back(refund)
	if later, comes := a.pace.comes(lack); comes {
		wait = a.pace.grantWait(e, later)
	} else if lack > 0 {
		wait = a.pace.refillTime(lack, a.pace.coming(lack))
	}
	if a.cal != nil {
		return max(wait, a.planFree(now, e))
	}
	// The part beyond one Window has to wait for the part before it.
	inWindow := min(ahead+c, a.limit) - refund
	if t, known := a.ledger.FreeAt(inWindow); known {
		wait = max(wait, t.Sub(now))
	}
	return wait
}

// slotWait guesses how long until a slot frees for one more: the mean run of past
// calls, shared by the slots that there soon are, for each that waits and this one. At a node that is at a bound
// of its own, of those that wait and run below it.
func (p *Pool) slotWait(at NodeID) time.Duration {
	waiting := p.waiting()
	of := p.soon
	if nd := &p.nodes[at]; at != Root {
		waiting = nd.waiting()
		of = int64(nd.running)
	}
	return p.doubted(time.Duration(waiting+1) * p.usualRun() / time.Duration(max(1, of)))
}

// longestDoubt bounds how long a caller is sent away because nobody knows when a slot frees.
const longestDoubt = 5 * time.Second

// doubted is a guess of when a slot frees. If none has for longer than that, the guess is wrong: then as long again as that has been. Where
// nothing runs no slot can be freed, and the guess is about others.
func (p *Pool) doubted(guess time.Duration) time.Duration {
	silent := time.Duration(0)
	if p.running > 0 {
		silent = time.Duration(p.now-p.freed) * time.Microsecond
	}
	return max(guess, min(silent, longestDoubt), time.Millisecond)
}
