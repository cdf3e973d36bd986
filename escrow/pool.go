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
	// What a running call may still produce is held.
	Production
	// Settled counts a call when it ends. What a running call may take is held.
	Settled
)

// Config describes a pool. The zero value of a limit turns its axis off.
type Config struct {
	// TPM and RPM are units a rolling minute, headroom already taken off.
	TPM, RPM int64
	// Slots is how many calls may run at once.
	Slots int64
	// Burst is how much unused rate an idle pool may hand out at once, 0 to a
	// minute. It is never less than one second.
	Burst time.Duration
	// Accounting mirrors the provider's rule.
	Accounting Accounting
	// MaxQueue bounds how many calls may wait; 0 means that none may.
	MaxQueue int
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
	case c.Burst < 0 || c.Burst > Window:
		return fmt.Errorf("escrow: burst %v is not in 0…%v", c.Burst, Window)
	case c.MaxQueue < 0:
		return fmt.Errorf("escrow: queue bound %d is negative", c.MaxQueue)
	}
	return nil
}

// Handle names a queued or running call. A handle outlives its call safely: a
// late Settle or Cancel finds nothing, and never a stranger's call.
type Handle struct{ Slot, gen uint32 }

type entryState uint8

const (
	entryFree entryState = iota
	entryQueued
	entryRunning
)

// entry is a call from Offer to its end. It is found by handle, kept in a
// table and reused with a new generation.
type entry struct {
	gen   uint32
	state entryState
	leaf  LeafID

	next, prev int32 // in the leaf's FIFO while queued; next free entry when free

	cost       Cost      // as booked
	slots      Cost      // ring slot of each axis at dispatch
	charged    int64     // virtual cost that the leaf's tag was moved by
	due        int64     // tokens that are expected back
	produced   int64     // tokens already booked under Production
	first      int64     // of them, those in the slot of the dispatch
	dispatched time.Time // when it left the queue
}

// expected is what of a call's cost it will really take.
func (e *entry) expected(k Axis) int64 {
	if k == Tokens {
		return e.cost[Tokens] - e.due
	}
	return e.cost[k]
}

// axisState is one rolling axis: when it is paid for, and what counts.
type axisState struct {
	on     bool
	pace   pace
	ledger *Ledger
}

// Pool shares one capacity between leaves by weight. It decides and keeps the
// books; it has no clock, goroutine or lock: every verb takes the time, and the
// owner serialises calls, arms a timer for Next and calls Pump.
//
// After any verb that may free capacity or add an entry, call Pump.
type Pool struct {
	cfg  Config
	axes [rollingAxes]axisState
	q    queue

	entries []entry
	free    int32 // head of the free list, -1 when empty
	queued  Cost  // sum over queued entries
	running int64
	due     int64 // tokens expected back from running calls

	meanRun time.Duration // of ended calls, for predicting when a slot frees
	blocked Axis          // the axis that held the head back at the last Pump
	next    time.Time
}

// New returns an idle pool. It panics on a configuration that Validate refuses.
func New(now time.Time, cfg Config) *Pool {
	if err := cfg.Validate(); err != nil {
		panic("escrow: BUG: " + err.Error())
	}
	p := &Pool{cfg: cfg, free: -1}
	p.q.epoch = 1
	p.q.headCost = func(i LeafID) int64 { return p.virtualCost(p.entries[p.q.leaves[i].head].cost) }
	for k, limit := range [rollingAxes]int64{cfg.TPM, cfg.RPM} {
		if limit == 0 {
			continue
		}
		a := &p.axes[k]
		a.on = true
		a.ledger = NewLedger(now, limit, paceSlots)
		ring := a.ledger
		if Axis(k) == Tokens && cfg.Accounting != AdmitMax {
			// The ledger's bookings move while calls run; the pace reads a ring of
			// dispatches of its own, else it would throttle twice.
			ring = NewLedger(now, limit, paceSlots)
		}
		a.pace = *newPace(now, limit, cfg.Burst, ring)
	}
	return p
}

// AddLeaf adds a tenant of the given weight.
func (p *Pool) AddLeaf(w Weight) LeafID { return p.q.add(w) }

// advance brings the books to now.
func (p *Pool) advance(now time.Time) {
	lead := false
	for k := range p.axes {
		a := &p.axes[k]
		if !a.on {
			continue
		}
		a.pace.advance(now, p.q.waiting > 0)
		a.ledger.Advance(now)
		lead = lead || a.pace.lead > a.pace.base
	}
	if !lead {
		p.q.newEpoch()
	}
}

// Clamp cuts a cost to the pool's limits. A call estimated above a whole
// minute goes when the minute is free of use; what it really takes beyond is
// debt. So a wrong guess never bars a call for good.
func (p *Pool) Clamp(c Cost) Cost {
	for k := range p.axes {
		if p.axes[k].on {
			c[k] = min(c[k], p.axes[k].ledger.limit)
		}
		c[k] = max(c[k], 0)
	}
	return c
}

// virtualCost is a call's dominant share of the pool's minute, in tag units.
// Where only slots are limited, calls count alike.
func (p *Pool) virtualCost(c Cost) int64 {
	v, rolling := int64(0), false
	for k := range p.axes {
		if p.axes[k].on {
			v = max(v, mulDivCeil(c[k], tagUnit, p.axes[k].ledger.limit))
			rolling = true
		}
	}
	if !rolling {
		return tagUnit / 1024
	}
	return min(v, maxVirtualCost)
}

// lead is what was dispatched ahead of the fluid server, beyond the slack of
// one second, on the axis where it is most; in tag units.
func (p *Pool) lead() int64 {
	v := int64(0)
	for k := range p.axes {
		if a := &p.axes[k]; a.on && a.pace.lead > a.pace.base {
			v = max(v, mulDivCeil(a.pace.lead-a.pace.base, tagUnit, a.pace.limit))
		}
	}
	return v
}

// fits reports whether a call of cost c may go now, else what it lacks.
func (p *Pool) fits(c Cost) (Axis, bool) {
	for k := range p.axes {
		a := &p.axes[k]
		if a.on && (a.pace.level < a.pace.need(c[k]) || a.ledger.Room() < c[k]) {
			return Axis(k), false
		}
	}
	if p.cfg.Slots > 0 && p.running >= p.cfg.Slots {
		return Slots, false
	}
	return 0, true
}

// alloc takes a free entry, or makes one.
func (p *Pool) alloc() int32 {
	if p.free < 0 {
		p.entries = append(p.entries, entry{gen: 1})
		return int32(len(p.entries) - 1)
	}
	i := p.free
	p.free = p.entries[i].next
	return i
}

func (p *Pool) release(i int32) {
	e := &p.entries[i]
	*e = entry{gen: e.gen + 1, next: p.free}
	p.free = i
}

// find returns the entry that h names, if it is still in state s.
func (p *Pool) find(h Handle, s entryState) (int32, bool) {
	if int(h.Slot) >= len(p.entries) {
		return 0, false
	}
	e := &p.entries[h.Slot]
	return int32(h.Slot), e.gen == h.gen && e.state == s
}

func (p *Pool) handle(i int32) Handle { return Handle{Slot: uint32(i), gen: p.entries[i].gen} }
