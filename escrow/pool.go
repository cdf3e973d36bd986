package escrow

import (
	"fmt"
	"time"
)

// Accounting is the rule by which a provider counts tokens against its limit;
// a pool books the same way.
type Accounting int

const (
	// AdmitMax counts input and the maximum output when a call is admitted, and
	// gives back at its end what it did not use (OpenAI, Azure, Bedrock).
	AdmitMax Accounting = iota
	// Production counts tokens when they are produced (Anthropic, own servers).
	// What a running call will probably produce is planned, in the slots in which
	// it will.
	Production
	// Settled counts a call when it ends. What a running call will probably take
	// is held.
	Settled
)

// Config describes a pool. The zero value of a limit turns its axis off.
type Config struct {
	// TPM and RPM are units a rolling minute, headroom already taken off.
	TPM, RPM int64
	// Slots is how many calls may run at once, and InteractiveReserve how many of
	// them background calls leave free.
	Slots, InteractiveReserve int64
	// Burst is how much unused rate an idle pool may hand out at once, 0 to a
	// minute. It is never less than one second.
	Burst time.Duration
	// Accounting mirrors the provider's rule.
	Accounting Accounting
	// MaxQueue bounds how many calls may wait; 0 means that none may. As many
	// tickets may be out.
	MaxQueue int
	// TicketWait is how long a call that comes back to a kept place may queue; 0
	// means that no places are kept.
	TicketWait time.Duration
}

// Validate reports the first field that is out of range.
func (c Config) Validate() error {
	switch {
	case c.TPM < 0 || c.TPM > MaxLimit:
		return fmt.Errorf("escrow: tokens a minute %d is not in 0…%d", c.TPM, MaxLimit)
	case c.RPM < 0 || c.RPM > MaxLimit:
		return fmt.Errorf("escrow: requests a minute %d is not in 0…%d", c.RPM, MaxLimit)
	case c.Slots < 0 || c.Slots > MaxLimit:
		return fmt.Errorf("escrow: slots %d is not in 0…%d", c.Slots, MaxLimit)
	case c.InteractiveReserve < 0 || c.InteractiveReserve > 0 && c.InteractiveReserve >= c.Slots:
		return fmt.Errorf("escrow: interactive reserve %d is not in 0…%d", c.InteractiveReserve, max(0, c.Slots-1))
	case c.Burst < 0 || c.Burst > Window:
		return fmt.Errorf("escrow: burst %v is not in 0…%v", c.Burst, Window)
	case c.MaxQueue < 0:
		return fmt.Errorf("escrow: queue bound %d is negative", c.MaxQueue)
	case c.TicketWait < 0 || c.TicketWait > Window:
		return fmt.Errorf("escrow: ticket wait %v is not in 0…%v", c.TicketWait, Window)
	}
	return nil
}

// axisState is one rolling axis: when it is paid for, and what counts.
type axisState struct {
	on     bool
	limit  int64
	pace   pace
	ledger *Ledger   // nil where there is a calendar
	cal    *calendar // of tokens under Production
	// era counts how often the books were begun anew. Calls that were booked in
	// others do not count in these.
	era uint32
}

// Pool shares one capacity between the nodes of a tree by weight. It decides and
// keeps the books; it has no clock, goroutine or lock: every verb takes the time,
// and the owner serialises calls, arms a timer for Next and calls Pump.
//
// After any verb that may free capacity or add an entry, call Pump.
type Pool struct {
	cfg   Config
	start time.Time
	axes  [rollingAxes]axisState
	tree
	tickets tickets

	running int64
	due     int64 // tokens expected back from running calls

	meanRun time.Duration // of ended calls, for predicting when a slot frees
	blocked Axis          // the axis that held the head back at the last Pump
	wake    time.Time
}

// New returns an idle pool. It panics on a configuration that Validate refuses.
func New(now time.Time, cfg Config) *Pool {
	if err := cfg.Validate(); err != nil {
		panic("escrow: BUG: " + err.Error())
	}
	p := &Pool{cfg: cfg, start: now, tree: newTree()}
	p.minute = cfg.TPM
	for k := range p.axes {
		p.axes[k] = newAxis(now, Axis(k), cfg)
	}
	return p
}

// newAxis is an axis that nothing has been taken of.
func newAxis(now time.Time, k Axis, cfg Config) axisState {
	limit := cfg.limit(k)
	if limit == 0 {
		return axisState{}
	}
	a := axisState{on: true, limit: limit}
	ring := NewLedger(now, limit, paceSlots)
	// The ledger's bookings may move while calls run; the pace then reads a ring of
	// dispatches of its own, else it would throttle twice.
	switch {
	case k != Tokens || cfg.Accounting == AdmitMax:
		a.ledger = ring
	case cfg.Accounting == Production:
		a.cal = newCalendar(now, limit)
	default:
		a.ledger = NewLedger(now, limit, paceSlots)
	}
	a.pace = *newPace(now, limit, cfg.Burst, ring)
	a.pace.loosen(a.ledger != ring)
	return a
}

// limit is that of a rolling axis.
func (c Config) limit(k Axis) int64 {
	if k == Tokens {
		return c.TPM
	}
	return c.RPM
}

// Add hangs a node under a parent that is Root or has no calls of its own.
func (p *Pool) Add(parent NodeID, n Node) NodeID { return p.add(parent, n) }

// Update changes a node's weight, floor and credit. Tags stay: what the node owes,
// or is owed, remains the same in cost.
func (p *Pool) Update(i NodeID, n Node) { p.describe(i, n) }

// Remove takes a node out of the tree. It reports false, and changes nothing, as
// long as something would be lost by it: calls that wait or run, kept places, debt,
// or children.
func (p *Pool) Remove(now time.Time, i NodeID) bool {
	p.advance(now)
	return p.remove(i)
}

// advance brings the books to now.
func (p *Pool) advance(now time.Time) {
	if us := int64(now.Sub(p.start) / time.Microsecond); us > p.now {
		p.now = us
	}
	p.lead = 0
	for k := range p.axes {
		a := &p.axes[k]
		if !a.on {
			continue
		}
		a.pace.advance(now, p.waiting() > 0)
		if a.cal != nil {
			a.cal.advance(now)
		} else {
			a.ledger.Advance(now)
		}
		if ahead := a.pace.lead - a.pace.base; ahead > 0 {
			p.lead = max(p.lead, mulDivCeil(ahead, tagUnit, a.limit))
		}
	}
	if p.lead == 0 {
		p.epoch++ // the pool is no longer ahead of the fluid server
	}
	p.expire(now)
}

func (p *Pool) waiting() int32 { return p.nodes[Root].waiting() }

// Clamp cuts a cost to the pool's limits. A call estimated above a whole
// minute goes when the minute is free of use; what it really takes beyond is
// debt. So a wrong guess never bars a call for good.
func (p *Pool) Clamp(c Cost) Cost {
	for k := range p.axes {
		if p.axes[k].on {
			c[k] = min(c[k], p.axes[k].limit)
		}
		c[k] = max(c[k], 0)
	}
	return c
}

// entryOf weighs a call.
func (p *Pool) entryOf(c *Call) entry {
	e := entry{leaf: c.Leaf, class: interactive, next: -1, prev: -1, most: c.Most, speed: c.Speed, run: c.Run}
	if c.Background {
		e.class = background
	}
	e.expect, e.input = c.Expect, c.Input
	if e.run <= 0 {
		if e.run = p.meanRun; e.run == 0 {
			e.run = time.Second
		}
	}
	p.price(&e)
	return e
}

// price weighs an entry by the pool's limits and accounting.
func (p *Pool) price(e *entry) {
	e.cost = p.Clamp(e.most)
	if e.expect <= 0 || e.expect > e.cost[Tokens] {
		e.expect = e.cost[Tokens]
	}
	if p.cfg.Accounting != AdmitMax {
		e.cost[Tokens] = e.expect
	}
	e.input = min(max(e.input, 0), e.expect)
	// A call that takes nothing of any axis still moves a tag, and its kept place shows.
	e.virtual = max(1, p.virtualCost(e.expect, e.cost[Requests], e.run))
}

// virtualCost is a call's dominant share of the pool's minute, in tag units: of
// its tokens, its requests, and the time it occupies a slot. (It is the configured
// number of slots that counts, not what an adaptive limit leaves of them, so that
// tags need not be rewritten when that moves.)
func (p *Pool) virtualCost(tokens, requests int64, run time.Duration) int64 {
	v := int64(0)
	for k, c := range [rollingAxes]int64{tokens, requests} {
		if p.axes[k].on {
			v = max(v, mulDivCeil(c, tagUnit, p.axes[k].limit))
		}
	}
	if p.cfg.Slots > 0 {
		whole := mulDivCeil(int64(run/time.Microsecond), tagUnit, windowMicros)
		v = max(v, mulDivCeil(whole, 1, p.cfg.Slots))
	}
	return min(v, maxVirtualCost)
}

// fits reports whether a call may go now, else what it lacks.
func (p *Pool) fits(now time.Time, e *entry) (Axis, bool) {
	for k := range p.axes {
		a := &p.axes[k]
		if a.on && (a.pace.level < a.pace.need(e.cost[k]) || !a.hasRoom(now, e, e.cost[k])) {
			return Axis(k), false
		}
	}
	return Slots, p.hasSlot(e.class)
}

func (a *axisState) hasRoom(now time.Time, e *entry, c int64) bool {
	if a.cal != nil {
		return a.cal.fits(now, e.input*grain, (e.expect-e.input)*grain, e.grains())
	}
	return a.ledger.Room() >= c
}

// grains is what a call produces in one slot of the calendar.
func (e *entry) grains() int64 {
	if e.speed <= 0 {
		return (e.expect - e.input) * grain
	}
	return min(e.speed, MaxLimit) * grain / (calendarSlots / int64(Window/time.Second))
}

// hasSlot reports whether a call of a class may occupy one more slot.
func (p *Pool) hasSlot(class rank) bool {
	free := p.cfg.Slots - p.running
	return p.cfg.Slots == 0 || free > 0 && (class == interactive || free > p.cfg.InteractiveReserve)
}
