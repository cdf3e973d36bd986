package escrow

import "time"

// WholePace is the whole of a pool's rate, in the parts that Throttle takes.
const WholePace = 1_000_000

// Throttle lets the pool hand out only a part of its rate, in millionths, and nothing at all before
// until; a zero until does not stop it. It is for a provider that has asked for less, or is partly
// gone. The books of the minute stay as they are, and so does the order of calls that wait. After
// such a stop the pool begins with one second of its rate, as a new one does: a provider that has
// just said that it is full is not sent a burst. Call Pump afterwards. It panics if part is not in
// 1…WholePace.
func (p *Pool) Throttle(now time.Time, part int64, until time.Time) {
	if part < 1 || part > WholePace {
		panic("escrow: BUG: a part of the pace is out of range")
	}
	p.advance(now)
	for k := range p.axes {
		if a := &p.axes[k]; a.on && part != p.part {
			a.pace.slow(part)
		}
	}
	p.part = part
	p.holdUntil(now, until)
}

// holdUntil sets, moves or ends the hold.
func (p *Pool) holdUntil(now, until time.Time) {
	switch {
	case until.After(now):
		p.held = until
	case !p.held.IsZero():
		p.held = time.Time{}
		for k := range p.axes {
			if a := &p.axes[k]; a.on {
				a.pace.level = min(a.pace.level, a.pace.base)
			}
		}
	}
}

// heldFor is how long nothing is handed out.
func (p *Pool) heldFor(now time.Time) time.Duration {
	if p.held.IsZero() {
		return 0
	}
	return max(0, p.held.Sub(now))
}

// lackOfHold is the axis that a hold is told of as.
func (p *Pool) lackOfHold() Axis {
	for k := range p.axes {
		if p.axes[k].on {
			return Axis(k)
		}
	}
	return Slots
}
