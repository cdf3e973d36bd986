package escrow

import "math"

// level is how far the calls of one upstream have come below an inner node: the lowest start tag of those that began
// there lately.
type level struct {
	low, before int64 // in the present stretch of time, and in the one before
	since       int64 // µs of the pool, when the present one began
}

// levelStretch is how long a stretch is at least, in µs; it lasts until the next call begins there. A tenant
// whose calls all began in one Pump is back within it.
const levelStretch = 1_000_000

// neverFull is when an upstream was full that never was, in µs of the pool.
const neverFull = -windowMicros - 1

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
			t.full = append(t.full, neverFull)
		}
		t.full[via.first()] = t.now
	}
}
