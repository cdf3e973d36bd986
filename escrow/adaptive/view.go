package adaptive

// seen is the result of a round: how many ran, and by how much they took longer.
type seen struct{ atOnce, excess float64 }

// view is a round so far: what was seen, and what follows from it.
type view struct {
	seen
	err     float64 // standard error of the excess
	base    float64 // mean of the calls
	waiting float64 // calls that wait upstream, by Little's law
	waits   float64 // so many of them are tolerated
}

// view looks at the round so far. It is not known if there is too little to compare with.
func (l *Limiter) view() (v view, known bool) {
	t := l.round.tally()
	if !t.known() || l.run == 0 {
		return view{}, false
	}
	v.atOnce = l.round.atOnce()
	v.excess, v.err = t.excess()
	v.base = t.bases / float64(t.n)
	v.waiting = v.atOnce * v.excess / l.run
	part := tolerated
	if t == &l.round.streams {
		part = toleratedFirst
	}
	v.waits = max(fewest, part*v.atOnce)
	return v, true
}

// busy reports whether too many wait upstream, by an excess of so many standard errors.
func (v *view) busy(law Law, errs float64) bool {
	switch {
	case v.excess <= errs*v.err:
		return false
	case law == AIMD:
		return v.excess > aimdBusy*v.base
	default:
		return v.waiting > v.waits
	}
}
