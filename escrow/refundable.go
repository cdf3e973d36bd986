package escrow

// Refundable is how much of their bookings running calls may still give back: all that was booked when they began, and
// of their output the part that is not known to have been produced.
func (p *Pool) Refundable() (most Cost) {
	for i := range p.entries {
		e := &p.entries[i]
		if e.state != entryRunning {
			continue
		}
		for k := range p.axes {
			if a := &p.axes[k]; a.on && a.era == e.books[k].era {
				most[k] += a.refundable(e)
			}
		}
	}
	return most
}

func (a *axisBooks) refundable(e *entry) int64 {
	switch {
	case a.cal != nil:
		atOnce, _ := e.planned(a.axis)
		plan := &e.books[a.axis].plan
		return atOnce + ceilDiv(plan.upTo(plan.to), grain)
	case a.apart():
		return 0 // it is held
	}
	return e.cost[a.axis]
}
