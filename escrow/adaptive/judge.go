package adaptive

import "time"

const (
	overloadCut = 0.8 // of the limit, when the upstream refuses
	// refusals is the part of calls up to which a refusal is none of the limit's doing, and
	// refusedOf over how many calls. Three in a row are more.
	refusals, refusedOf = 0.08, 32
	aimdCut             = 0.9
	aimdBusy            = 0.2 // of the base, as excess
	// toleratedFirst is how many calls may wait, as a part of those that run, if first tokens show it.
	toleratedFirst = 1.0 / 64
	// tolerated is the same if whole answers show it. These are also slower because more calls share a server, which
	// still does more then.
	tolerated = 0.1
	// fewest is the least number of calls that may wait by either.
	fewest = 0.75
	// certain is how many standard errors an excess must be, and plain how many in the half of a round.
	certain, plain = 2, 3
	// holds is for how many rounds a knee that was found is kept.
	holds = 6
	// light is the part of the limit up to which the upstream is taken to be at rest, and
	// drained the rest of the limit for that.
	light, drained = 0.8, 0.8
	// restEvery is how often it is seen at rest at least.
	restEvery = 5 * time.Minute
	// far is the part of the limit below which a base that was measured there says too little.
	far = 0.6
	// noLess is the part of the throughput that a drained round of four fifths has at least,
	// if what was drained did little.
	noLess = 0.93
)

// judge ends a round.
func (l *Limiter) judge(now time.Time) {
	r := &l.round
	v, known := l.view()
	if !known {
		r.end(false, false, true)
		l.turn(now, false)
		return
	}
	busy := v.busy(l.cfg.Law, certain)
	if busy && v.excess > l.before.excess+certain*v.err {
		l.draining = false // no rest: fewer ran, and waited longer, so the knee has fallen since
	}
	was := l.Limit()
	asMuch := l.draining && l.asMuch(v.seen)
	rest := l.draining && !asMuch || !busy && v.atOnce <= light*l.limit
	r.end(rest, l.draining, busy)
	if rest {
		l.rested = now
		l.restedAt = v.atOnce
	}
	l.before = v.seen
	switch {
	case asMuch:
		l.draining = false
		l.set(drained * l.limit)
		l.settle()
	case l.draining:
		l.draining = false
	case v.atOnce < l.limit/2: // it is not the limit that matters
	case busy && l.restedAt < far*l.limit && v.excess < v.base && l.canDrain():
		l.draining = true // a server that many share is slower without any queue
	case busy:
		l.lower(&v)
		if l.fall.inVain(l.before, l.limit <= float64(l.cfg.Min)) {
			l.forget()
		}
	default:
		l.fall = fall{}
		if 2*r.full >= r.all {
			l.rise(now)
		}
	}
	l.turn(now, l.Limit() != was)
}

// asMuch reports whether a drained round did as much as the one before it: then the limit
// is beyond the knee, whatever the base says, and is not to be measured by.
func (l *Limiter) asMuch(now seen) bool {
	return now.atOnce/max(l.run-(l.before.excess-now.excess), 0.001) > noLess*l.before.atOnce/l.run
}

// lower takes back the excess.
func (l *Limiter) lower(v *view) {
	if l.cfg.Law == AIMD {
		l.set(l.limit * aimdCut)
	} else {
		l.set(min(l.limit, max(v.atOnce-v.waiting, l.limit/2)))
	}
	l.settle()
}

// settle begins to look for the knee close by.
func (l *Limiter) settle() {
	l.ramping = false
	l.found = l.limit
	l.hold = holds
}

// rise lets the limit grow, or has the upstream seen at rest first.
func (l *Limiter) rise(now time.Time) {
	switch {
	case now.Sub(l.rested) >= restEvery && l.canDrain():
		l.draining = true
	case l.ramping:
		l.grow(now, max(1, l.limit/2))
	case l.cfg.Law == AIMD:
		l.grow(now, 1)
	case l.hold > 0:
		l.hold--
	default:
		l.grow(now, min(max(1, (l.limit-l.found)/2), l.limit/2))
	}
}

func (l *Limiter) canDrain() bool { return drained*l.limit >= float64(l.cfg.Min) }

// forget learns all bases anew, where they are.
func (l *Limiter) forget() {
	clear(l.bases)
	l.others = [2]base{}
	l.fall = fall{}
	l.ramping = true
}

// fall is how a limit falls, round after round.
type fall struct {
	most    seen // where calls waited most
	since   int  // rounds
	floored int  // rounds at the least limit
}

// inVain reports whether calls take as long as when many more ran: then it is no queue
// that they wait in. A queue may be as long one round later still, because the calls that make it were there before.
func (f *fall) inVain(s seen, least bool) bool {
	f.since++
	if f.most == (seen{}) || s.excess > 1.25*f.most.excess {
		*f = fall{most: s}
	}
	if least {
		f.floored++
	}
	if s.excess < 0.8*f.most.excess {
		return false
	}
	return f.floored >= 4 || f.since >= 2 && s.atOnce <= 0.6*f.most.atOnce
}
