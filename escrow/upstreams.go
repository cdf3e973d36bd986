package escrow

import (
	"math"
	"math/bits"
	"time"
)

// A pool may stand before several upstreams, each with limits of its own, and a call may be allowed to use only
// some of them. The tree then decides who goes next, and the upstreams decide where.
//
// A call whose upstreams are all full is passed over by calls that may use others, but by none that
// would use one of its own: so nobody waits while an upstream that it may use has room for it, and large calls do
// not starve behind small ones. A node that is passed over falls behind the virtual time of its siblings, and that is
// fair: it has had less. Those that return to the same upstreams start beside it (levelOf), not where the
// others are.

// Upstreams are the upstreams of a pool, with the books of their limits. An owner that has no such limits
// has none. The Pool calls them within its verbs, one at a time.
type Upstreams interface {
	// Choose picks the upstream for a call of a cost, of those among which have room for it. It changes nothing.
	Choose(now time.Time, among Mask, c Cost) (upstream int, ok bool)
	// Lack is why none of them has room: an axis, and when one may have. The zero time means: only when a call ends,
	// or the limits change.
	Lack(now time.Time, among Mask, c Cost) (Axis, time.Time)
	// Wait is how long it takes until one of them has room for a call, once all of ahead has gone.
	Wait(now time.Time, among Mask, c, ahead Cost) time.Duration
	// Begin books a call, which is known by its slot of the table (Handle), at an upstream, whether it has room or not.
	Begin(now time.Time, slot uint32, upstream int, c Cost)
	// End replaces what was booked for a call by its actual cost.
	End(now time.Time, slot uint32, actual Cost)
}

// Mask is a set of upstreams, by their index.
type Mask uint64

// With is the mask with another upstream.
func (m Mask) With(upstream int) Mask { return m | 1<<upstream }

// first is the first upstream of a mask that is not empty.
func (m Mask) first() int { return bits.TrailingZeros64(uint64(m)) }

// everywhere is the mask of all upstreams that there could be.
const everywhere = ^Mask(0)

// SetUpstreams puts other upstreams in force; nil is none. moved tells where those of a call that waits stand now.
// Call Pump afterwards.
func (p *Pool) SetUpstreams(u Upstreams, moved func(Mask) Mask) {
	p.upstreams = u
	p.passed = everywhere
	for n := range p.entries {
		e := &p.entries[n]
		if e.state != entryQueued && e.state != entryTicket {
			continue
		}
		p.count(e, -1)
		e.via = moved(e.via)
		p.count(e, 1)
	}
	for i := range p.nodes {
		p.nodes[i].via = moved(p.nodes[i].via)
	}
}

// Upstream is where a call runs.
func (p *Pool) Upstream(h Handle) int { return p.entries[h.Slot].upstream }

// Move sends a running call on to another upstream among some, if one of them has room for it: spent is what it
// took of the one that it leaves. It reports false, and changes nothing, if none has, or there is no such call.
// Call Pump afterwards.
func (p *Pool) Move(now time.Time, h Handle, among Mask, spent Cost) (upstream int, ok bool) {
	n, ok := p.find(h, entryRunning)
	if !ok || p.upstreams == nil {
		return 0, false
	}
	p.advance(now)
	e := &p.entries[n]
	upstream, ok = p.upstreams.Choose(now, among, e.cost)
	if !ok {
		return 0, false
	}
	p.upstreams.End(now, h.Slot, spent)
	p.upstreams.Begin(now, h.Slot, upstream, e.cost)
	e.upstream = upstream
	e.elsewhere = e.elsewhere.plus(spent)
	return upstream, true
}

// finds reports whether a call may go now, if it is its turn, and finds its upstream; else, the axis that it lacks.
func (p *Pool) finds(now time.Time, e *entry) (Axis, bool) {
	lacks, ok := p.fits(now, e)
	if !ok {
		return lacks, false
	}
	return p.place(now, e, 0)
}

// place finds the upstream for a call, of those that it may use without some; else, the axis that it lacks.
func (p *Pool) place(now time.Time, e *entry, without Mask) (Axis, bool) {
	if p.upstreams == nil {
		return Slots, true
	}
	upstream, ok := p.upstreams.Choose(now, e.via&^without, e.cost)
	if !ok {
		p.noteFull(e.via)
		lacks, _ := p.upstreams.Lack(now, e.via, e.cost)
		return lacks, false
	}
	e.upstream = upstream
	return Slots, true
}

// beside reports whether a new call that fits takes nothing from those that wait: all of these wait for
// upstreams, and it finds room at another one.
func (p *Pool) beside(now time.Time, e *entry) bool {
	if p.upstreams == nil || p.passed == everywhere || p.parked && e.class == background {
		return false
	}
	_, ok := p.place(now, e, p.passed)
	return ok
}

// passOver hides the leaf of a call, for which no upstream has room, until the end of Pump, so that calls that may use
// other upstreams than those that are waited for find their turn. It reports false if there are none.
func (p *Pool) passOver(now time.Time, e *entry) bool {
	p.passed |= e.via
	_, at := p.upstreams.Lack(now, e.via, e.cost)
	p.wakeAt(at)
	if p.waitingVia.union()&^p.passed == 0 {
		return false
	}
	p.hide(e.leaf, true)
	p.hidden = append(p.hidden, e.leaf)
	return true
}

// hide has a leaf stand aside, or stand again where it stood.
func (t *tree) hide(i NodeID, aside bool) {
	by := int32(1)
	if aside {
		by = -1
	}
	t.nodes[i].aside = aside
	t.countReady(i, by)
	t.restandUp(i)
}

// showAll ends what passOver began.
func (p *Pool) showAll() {
	for _, i := range p.hidden {
		p.hide(i, false)
	}
	p.hidden = p.hidden[:0]
}

// viaCount counts the calls that wait by the upstreams that they may use. There are few masks: those of tenants.
type viaCount []viaCalls

type viaCalls struct {
	via   Mask
	calls int64
	cost  Cost
}

// add counts a call (by = 1), or takes one off (by = -1).
func (v *viaCount) add(e *entry, by int64) {
	i := 0
	for i < len(*v) && (*v)[i].via != e.via {
		i++
	}
	if i == len(*v) {
		*v = append(*v, viaCalls{via: e.via})
	}
	one := &(*v)[i]
	one.calls += by
	for k := range one.cost {
		one.cost[k] += by * e.cost[k]
	}
	if one.calls == 0 {
		last := len(*v) - 1
		(*v)[i] = (*v)[last]
		*v = (*v)[:last]
	}
}

// union is the mask of all upstreams that some waiting call may use.
func (v viaCount) union() (all Mask) {
	for i := range v {
		all |= v[i].via
	}
	return all
}

// within is the cost of the calls that wait for no other upstreams than those of a mask.
func (v viaCount) within(via Mask) (sum Cost) {
	for i := range v {
		if v[i].via&^via == 0 {
			sum = sum.plus(v[i].cost)
		}
	}
	return sum
}

// level is how far the calls of one upstream have come below an inner node: the lowest start tag of those that began
// there lately.
type level struct {
	low, before int64 // in the present stretch of time, and in the one before
	since       int64 // µs of the pool, when the present one began
}

// levelStretch is how long a stretch is at least, in µs; it lasts until the next call begins there. A tenant
// whose calls all began in one Pump is back within it.
const levelStretch = 1_000_000

// serve notes that a call begins at an upstream, at a start tag.
func (p *inner) serve(now int64, upstream int, tag int64) {
	for len(p.levels) <= upstream {
		p.levels = append(p.levels, level{low: math.MaxInt64, before: math.MaxInt64})
	}
	l := &p.levels[upstream]
	if now-l.since > levelStretch {
		*l = level{low: tag, before: l.low, since: now}
	}
	l.low = min(l.low, tag)
}

// levelOf is where the fluid system stands below an inner node for calls that may use some upstreams. That is virtual time,
// unless all of these were full within the last Window: then it is where the calls of the one stand that has come furthest.
func (t *tree) levelOf(p *inner, via Mask, virtual int64) int64 {
	if via == 0 || p.idle != t.idles {
		return virtual
	}
	furthest := int64(math.MinInt64)
	for rest := via; rest != 0; rest &= rest - 1 {
		i := rest.first()
		if i >= len(p.levels) || i >= len(t.full) || t.now-t.full[i] > windowMicros {
			return virtual
		}
		furthest = max(furthest, min(p.levels[i].low, p.levels[i].before))
	}
	return min(furthest, virtual)
}

// noteFull notes that some upstreams had no room for a call.
func (t *tree) noteFull(via Mask) {
	if t.looking {
		return
	}
	for ; via != 0; via &= via - 1 {
		for len(t.full) <= via.first() {
			t.full = append(t.full, -windowMicros-1)
		}
		t.full[via.first()] = t.now
	}
}
