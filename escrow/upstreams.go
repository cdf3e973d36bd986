package escrow

import (
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
	// Able are those of some upstreams that can take a call of a cost at all, once they are idle. It is never empty: if none
	// can, it is those that come nearest.
	Able(among Mask, c Cost) Mask
	// Choose picks the upstream for a call of a cost and a conversation (Call.Conversation), of those among which have room for
	// it. It changes nothing.
	Choose(now time.Time, among Mask, c Cost, of uint64) (upstream int, ok bool)
	// Home is where the calls of a conversation would be, of some upstreams, if these had room.
	Home(now time.Time, among Mask, of uint64) (upstream int)
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
	able := among
	if e.upstream >= 0 { // it can take the call
		able = among.With(e.upstream)
	}
	among &= p.upstreams.Able(able, e.cost)
	upstream, ok = p.upstreams.Choose(now, among&^p.shut(e.leaf), e.cost, e.of)
	if !ok {
		return 0, false
	}
	p.upstreams.End(now, h.Slot, spent)
	p.upstreams.Begin(now, h.Slot, upstream, e.cost)
	p.countAt(e.leaf, e.upstream, -1)
	p.countAt(e.leaf, upstream, 1)
	e.upstream = upstream
	spent[Requests] = 0 // it is one request everywhere
	e.elsewhere = e.elsewhere.plus(spent)
	return upstream, true
}

// finds reports whether a call may go now, if it is its turn, and finds its upstream; else, the axis that it lacks.
func (p *Pool) finds(now time.Time, e *entry) (Axis, bool) {
	lacks, ok := p.fits(now, e)
	if !ok {
		return lacks, false
	}
	if !p.place(now, e, 0) {
		lacks, _ = p.lackThere(now, e)
		return lacks, false
	}
	return lacks, true
}

// place finds the upstream for a call, of those that it may use without some. It reports false if none of them has room: see lackThere.
func (p *Pool) place(now time.Time, e *entry, without Mask) bool {
	if p.upstreams == nil {
		return true
	}
	among := p.openTo(e)
	upstream, ok := p.upstreams.Choose(now, among&^without, e.cost, e.of)
	if !ok {
		p.noteFull(among)
		return false
	}
	e.upstream = upstream
	return true
}

// placeAnyhow finds the upstream for a call that goes even if none has room for it.
func (p *Pool) placeAnyhow(now time.Time, e *entry) {
	if !p.place(now, e, 0) {
		e.upstream = e.via.first()
	}
}

// ForetellForced is the upstream at which Force would start a call. It changes nothing.
func (p *Pool) ForetellForced(now time.Time, c Call) (upstream int) {
	p.advance(now)
	p.looking = true
	defer func() { p.looking = false }()
	e := p.entryOf(&c)
	p.placeAnyhow(now, &e)
	return e.upstream
}

// Choices are the upstreams among which one is chosen for a call.
type Choices struct {
	Able Mask // of Call.Via those that can take it at all: Upstreams.Able
	Shut Mask // where its leaf runs as many calls as it may: Restrict
	Cost Cost // at which it would be booked there
	Fits bool // the pool itself has room for it
}

// Choices are those of a call now.
func (p *Pool) Choices(now time.Time, c *Call) Choices {
	p.advance(now)
	e := p.entryOf(c)
	_, fits := p.fits(now, &e)
	return Choices{Able: e.via, Shut: p.shut(e.leaf), Cost: e.cost, Fits: fits}
}

// lackThere is the axis that a call lacks at its upstreams, and when there may be room (Upstreams.Lack).
func (p *Pool) lackThere(now time.Time, e *entry) (lacks Axis, at time.Time) {
	return p.upstreams.Lack(now, p.openTo(e), e.cost)
}

// beside reports whether a new call that fits takes nothing from those that wait: all of these wait for
// upstreams, and it finds room at another one.
func (p *Pool) beside(now time.Time, e *entry) bool {
	if p.upstreams == nil || p.passed == everywhere || p.parked && e.class == background {
		return false
	}
	return p.place(now, e, p.passed)
}
