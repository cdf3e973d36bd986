package escrow

import "time"

// Calls of a conversation would rather be at one upstream, its home. While all slots are in use, the one that is free is seldom that of
// the next call: without a rule for it, calls would be spread by chance. So of the first calls of a leaf that wait, the first goes whose
// home has room. It is the leaf's turn in any case, so no other leaf has less, and nobody is passed by more than a few.
const (
	// homeLook is among how many calls.
	homeLook = 16
	// mostPassed is how many calls go before one that came earlier.
	mostPassed = 8
)

// preferHome returns the call of a leaf that goes now, given the next one, which has found an upstream: that one, unless it is not at home
// there and a call behind it would be. A call that has come back goes when it is told.
func (p *Pool) preferHome(now time.Time, next int32) int32 {
	first := &p.entries[next]
	if first.of == 0 || p.atHome(now, first) {
		return next
	}
	n := next
	for range homeLook - 1 {
		if p.entries[n].back || p.entries[n].passed >= mostPassed {
			return next // nobody passes it
		}
		n = p.entries[n].next
		if n < 0 {
			return next
		}
		if p.goesHome(now, &p.entries[n], first.via) {
			p.pass(next, n)
			return n
		}
	}
	return next
}

// atHome reports whether a call that has found an upstream is at home there.
func (p *Pool) atHome(now time.Time, e *entry) bool {
	return p.upstreams == nil || p.upstreams.Home(now, e.via, e.of) == e.upstream
}

// goesHome reports whether a call that may use some upstreams could go now, and be at home, and finds its upstream.
func (p *Pool) goesHome(now time.Time, e *entry, via Mask) bool {
	if e.of == 0 || e.via != via {
		return false
	}
	if _, ok := p.fits(now, e); !ok {
		return false
	}
	upstream, ok := p.upstreams.Choose(now, p.openTo(e)&^p.passed, e.cost, e.of)
	e.upstream = upstream
	return ok && p.atHome(now, e)
}

// pass notes that a call goes before those of its leaf that came earlier.
func (p *Pool) pass(from, to int32) {
	for n := from; n != to; n = p.entries[n].next {
		p.entries[n].passed++
	}
}
