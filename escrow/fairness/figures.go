package fairness

// lend counts the loans between leaves: of the share that a leaf is entitled to by weight
// alone, that which it does not ask for; as much as others get beyond the share that they are
// entitled to by theirs. Both are taken over the last minute, of which each second adds
// its part, so that a call that takes more than a second's share is not lent anything.
// The loans given and the loans taken are the same sum.
func (m *Meter) lend(dt float64, s Sample) {
	if s.TPM == 0 {
		return
	}
	at := m.at()
	full := minute * s.Part * min(1, at.Seconds()/window.Seconds())
	// scratch
	over := m.given
	free := m.later
	overs := 0.0
	frees := 0.0
	for i, l := range m.leaves {
		sum := l.minute(at)
		own := m.guaranteed[i] * full
		over[i] = max(0, sum.received-own)
		free[i] = max(0, own-sum.demand(l))
		overs += over[i]
		frees += free[i]
	}
	if overs == 0 || frees == 0 {
		return
	}
	tokens := min(overs, frees) * dt / window.Seconds() * float64(s.TPM) / minute
	for i, l := range m.leaves {
		l.borrowed += tokens * over[i] / overs
		l.lent += tokens * free[i] / frees
	}
}

// demand is the demand of a leaf in the last minute: its service, its waiting calls, and those that
// were turned away.
func (c *cell) demand(l *Leaf) float64 { return max(0, c.received) + l.waiting + c.turned }

// Figures describe a pool's last minute.
type Figures struct {
	// Jain is Jain's index of fairness over all who were entitled to something, by the part that
	// each received of that: 1 if all had the same part, and 1/n if one of n had all.
	Jain float64
	// Deviation is the largest distance between the service of a leaf and the share that it was entitled
	// to, as a part of that.
	//
	// Both overlook a call of each, for no call can be split.
	Deviation float64
	Leaves    []LeafFigures // in the order of Plant
}

// LeafFigures are a leaf's: its entitlement, service and demand in the
// last minute, and the share that its weight alone entitles it to, as parts of the pool's minute;
// and in tokens, in all so far, the loans that it took and gave.
type LeafFigures struct {
	Entitled, Received, Demand, Guaranteed float64
	Borrowed, Lent                         float64
}

// Figures are as of the last Step.
func (m *Meter) Figures() Figures {
	f := Figures{Jain: 1, Leaves: make([]LeafFigures, len(m.leaves))}
	at := m.at()
	sum := 0.0
	squares := 0.0
	n := 0.0
	for i, l := range m.leaves {
		c := l.minute(at)
		f.Leaves[i] = LeafFigures{
			Entitled: max(0, c.entitled) / minute, Received: max(0, c.received) / minute,
			Demand: c.demand(l) / minute, Guaranteed: m.guaranteed[i],
			Borrowed: l.borrowed, Lent: l.lent,
		}
		x, counts := l.ratio(&c)
		if counts {
			sum += x
			squares += x * x
			n++
			f.Deviation = max(f.Deviation, x-1, 1-x)
		}
	}
	if squares > 0 {
		f.Jain = sum * sum / (n * squares)
	}
	return f
}

// ratio is the service of a leaf over its entitlement, give or take a call.
func (l *Leaf) ratio(c *cell) (float64, bool) {
	whole := max(c.entitled, l.usual)
	if c.entitled <= 0 || whole <= 0 {
		return 0, false
	}
	apart := c.received - c.entitled
	return max(0, 1+(apart-max(-l.usual, min(apart, l.usual)))/whole), true
}

// Quiet reports whether another Step would change nothing but the passing of time.
func (m *Meter) Quiet() bool {
	for _, l := range m.leaves {
		if l.window != nil || l.waiting > 0 || l.lag != 0 {
			return false
		}
	}
	return true
}
