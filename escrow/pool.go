package escrow

import (
	"fmt"
	"slices"
	"time"

	"github.com/llmgov/llmgov/internal/lib/muldiv"
)

// Accounting is the rule by which a provider counts tokens against its limit;
// a pool books the same way.
type Accounting int

const (
	// AdmitMax counts input and the maximum output when a call is admitted, and
	// gives back the unused rest at its end (OpenAI, Azure, Bedrock).
	AdmitMax Accounting = iota
	// Production counts tokens when they are produced (Anthropic, own servers).
	// The probable output of a running call is planned, in the slots in which
	// it will.
	Production
	// Settled counts a call when it ends. The probable cost of a running call
	// is held.
	Settled
)

// String is the name of the rule in files.
func (a Accounting) String() string { return [...]string{"admit_max", "production", "settle"}[a] }

// Config describes a pool. The zero value of a limit turns its axis off.
type Config struct {
	// TPM, RPM, ITPM and OTPM are tokens, requests, input tokens and output tokens a rolling
	// minute, headroom already taken off.
	TPM, RPM, ITPM, OTPM int64
	// Slots is how many calls may run at once, and InteractiveReserve how many of
	// them background calls never take. Narrow has fewer of them used.
	Slots, InteractiveReserve int64
	// SoftCap is how many of the slots one claimant (Node.Capped) may have once half of them are in use, in
	// millionths; 0 is no such cap. It is at least one slot.
	SoftCap int64
	// HoldBack is how many of the slots calls of the lowest band leave free (Node.Below), in millionths; 0 is none.
	HoldBack int64
	// Burst is how much unused rate an idle pool may hand out at once, 0 to a
	// minute. It is never less than one second.
	Burst time.Duration
	// Even lets requests go one by one at their rate, because the provider counts them in less than a minute.
	Even bool
	// Accounting is the provider's rule. It is of tokens of all kinds: a request counts when
	// its call is admitted.
	Accounting Accounting
	// MaxQueue bounds how many calls may wait; 0 means that none may. As many places
	// of refused calls may be kept besides.
	MaxQueue int
	// Shared says that the limits are shared with other processes: Allow says how much may be
	// handed out, and without it nothing is.
	Shared bool
	// TicketWait is how long a call that comes back to its place in time may queue
	// at least, up to a minute; 0 means that no places are kept.
	TicketWait time.Duration
}

// Validate reports the first field that is out of range.
func (c Config) Validate() error {
	for k, limit := range c.Minute() {
		if limit < 0 || limit > MaxLimit {
			return fmt.Errorf("escrow: %s a minute %d is not in 0…%d", Axis(k), limit, MaxLimit)
		}
	}
	switch {
	case c.Slots < 0 || c.Slots > MaxLimit:
		return fmt.Errorf("escrow: slots %d is not in 0…%d", c.Slots, MaxLimit)
	case c.InteractiveReserve < 0 || c.InteractiveReserve > 0 && c.InteractiveReserve >= c.Slots:
		return fmt.Errorf("escrow: interactive reserve %d is not in 0…%d", c.InteractiveReserve, max(0, c.Slots-1))
	case c.SoftCap < 0 || c.SoftCap > wholeSlots:
		return fmt.Errorf("escrow: soft cap %d is not in 0…%d", c.SoftCap, wholeSlots)
	case c.HoldBack < 0 || c.HoldBack > wholeSlots:
		return fmt.Errorf("escrow: hold-back %d is not in 0…%d", c.HoldBack, wholeSlots)
	case c.Burst < 0 || c.Burst > Window:
		return fmt.Errorf("escrow: burst %v is not in 0…%v", c.Burst, Window)
	case c.MaxQueue < 0:
		return fmt.Errorf("escrow: queue bound %d is negative", c.MaxQueue)
	case c.TicketWait < 0 || c.TicketWait > Window:
		return fmt.Errorf("escrow: ticket wait %v is not in 0…%v", c.TicketWait, Window)
	}
	return nil
}

// Pool shares one capacity between the nodes of a tree by weight. It decides and
// keeps the books; it has no clock, goroutine or lock. Every verb takes the time,
// which never runs backwards: an earlier now counts as the latest that was told. A
// Pool is not safe for concurrent use: its owner serialises calls.
//
// After any verb that may free capacity, or that leaves a call waiting, call Pump; also after one that begins a
// call while background calls wait, which may have less than their share then (Rule).
// After Pump arm a timer for Next, and call Pump when it fires.
type Pool struct {
	cfg   Config
	start time.Time
	axes  [Rolling]axisBooks
	tree
	tickets tickets
	// expected is until when a caller is expected who was told to come back, but no longer than for a Window, in µs of the pool.
	expected int64
	told     []told // by leaf: see Account
	mark     int64  // see Mark
	idle     [Rolling]idleness

	upstreams Upstreams // nil if they have no limits of their own
	// passed is the upstreams for which calls waited that the last Pump passed over; everywhere if others wait as well.
	passed Mask
	parked bool     // background calls that wait for slots are left after the last Pump
	hidden []NodeID // in Pump

	part int64     // of the rate that is handed out; see Throttle
	held time.Time // until when nothing is; zero for no hold

	slots   int64 // of cfg.Slots, that may be used; see Narrow
	soon    int64 // that may be used soon; see Expect
	running int64
	paused  int32 // calls; see Pause
	refunds Cost  // expected back from running calls

	rules      []Rule     // of slots
	background int64      // calls of running
	stuck      bandSet    // bands of which all calls that wait find no upstream, as of the last Pump
	crowded    bool       // all slots were in use at the end of the last Pump
	elsewhere  *Elsewhere // nil if this process is alone

	meanRun time.Duration // of ended calls; 0 before the first
	freed   int64         // when a slot was freed last, or taken while all were free
	blocked Axis          // that the head of the queue lacked at the last Pump
	first   Cost          // of that call; nothing when none was left
	wake    time.Time     // when it may have that; zero when only a verb can tell
}

// New returns an idle pool. It panics on a configuration that Validate refuses.
func New(now time.Time, cfg Config) *Pool {
	if err := cfg.Validate(); err != nil {
		panic("escrow: BUG: " + err.Error())
	}
	p := &Pool{cfg: cfg, start: now, part: WholePace, rules: cfg.Rules(), tree: newTree()}
	p.Narrow(cfg.Slots)
	p.minute = cfg.TPM
	for k := range p.axes {
		p.axes[k] = newAxis(now, Axis(k), cfg)
	}
	return p
}

// Minute are the limits of the rolling axes, in units a Window; 0 is none.
func (c *Config) Minute() Cost {
	return Cost{Tokens: c.TPM, Requests: c.RPM, Input: c.ITPM, Output: c.OTPM}
}

// Tokens are those of a minute, of whichever kind: TPM, or without one ITPM and OTPM together.
func (c *Config) Tokens() int64 {
	if c.TPM > 0 {
		return c.TPM
	}
	return c.ITPM + c.OTPM
}

// Add hangs a node under a parent: Root, another node with children, or a leaf that
// has no calls and no kept places. It panics on any other parent, and on a Node out
// of range. O(depth · log children), as Update is.
func (p *Pool) Add(parent NodeID, n Node) NodeID { return p.add(parent, n) }

// Grow makes room for so many more nodes at once.
func (p *Pool) Grow(nodes int) { p.nodes = slices.Grow(p.nodes, max(0, nodes-len(p.spare))) }

// Update changes a node's weight, floor and credit. The debt of the node, or its claim,
// stays the same in cost, so its tag moves. It panics on a Node out of range. Call
// Pump afterwards: another call may be next now.
func (p *Pool) Update(i NodeID, n Node) { p.describe(i, n) }

// Remove takes a node out of the tree. It reports false, and changes nothing, as
// long as something would be lost by it: calls that wait or run, kept places, debt,
// or children. The NodeID may be given out again.
func (p *Pool) Remove(now time.Time, i NodeID) bool {
	p.advance(now)
	if !p.remove(i) {
		return false
	}
	if int(i) < len(p.told) {
		p.told[i] = told{}
	}
	return true
}

// advance brings the books to now. Every verb that decides or books begins with it.
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
		p.watch(Axis(k))
		a.pace.advance(now, p.waiting() > 0)
		if a.cal != nil {
			a.cal.advance(now)
		} else {
			a.ledger.Advance(now)
		}
		if ahead := a.pace.lead - a.pace.base; ahead > 0 {
			p.lead = max(p.lead, muldiv.Ceil(ahead, tagUnit, a.limit))
		}
	}
	if p.lead == 0 {
		p.epoch++ // the pool is no longer ahead of the fluid server
	}
	p.expire()
	if !p.held.IsZero() && !p.held.After(now) {
		p.holdUntil(now, time.Time{})
	}
}

func (p *Pool) waiting() int32 { return p.nodes[Root].waiting() }

// fits reports whether a call may go now, if it is its turn; else, the axis that it lacks.
func (p *Pool) fits(now time.Time, e *entry) (Axis, bool) {
	if p.heldFor(now) > 0 {
		return p.lackOfHold(), false
	}
	for k := range p.axes {
		a := &p.axes[k]
		if a.on && (a.pace.level < a.pace.need(e.cost[k]) || !a.hasRoom(now, e)) {
			return Axis(k), false
		}
	}
	by, _ := p.keptBy(e.leaf, e.class, e)
	return Slots, by == nil && p.Free()
}

// BurstOf is how much unused rate of an axis an idle pool may hand out at once.
func (c *Config) BurstOf(k Axis) int64 {
	if c.Even && k == Requests {
		return 1
	}
	limit := c.Minute()[k]
	return max(min(limit, 1), limit/int64(Window/time.Second), muldiv.Ceil(limit, int64(c.Burst/time.Microsecond), windowMicros))
}
