package escrow

import (
	"time"

	"github.com/llmgov/llmgov/internal/lib/muldiv"
)

// entryOf is the entry of a call that is offered, weighed.
func (p *Pool) entryOf(c *Call) entry {
	e := entry{
		leaf: c.Leaf, class: interactive, next: -1, prev: -1,
		most: c.Most, speed: c.Speed, run: c.Run,
		maxWait: c.MaxWait, known: c.Claim.known(), below: int8(c.Below), may: c.Via, of: c.Conversation,
	}
	e.asked.expect = c.Expect
	e.asked.input = c.Input
	e.asked.fair = c.Fair
	e.asked.at = p.now
	if c.Background {
		e.class = background
	}
	if e.run <= 0 {
		e.run = p.usualRun()
	}
	p.weigh(&e)
	return e
}

// weigh finds what an entry costs, and the upstreams that can take that.
func (p *Pool) weigh(e *entry) {
	p.price(e)
	e.via = e.may
	if p.upstreams != nil {
		e.via = p.upstreams.Able(e.may, e.cost)
	}
}

// price weighs an entry by the pool's limits and accounting: the cost at which it is booked,
// and the virtual cost by which that moves the tags.
func (p *Pool) price(e *entry) {
	e.cost = p.Clamp(e.most)
	e.expect = e.asked.expect
	if e.expect <= 0 || e.expect > e.cost[Tokens] {
		e.expect = e.cost[Tokens]
	}
	e.input = min(max(e.asked.input, 0), e.expect)
	if p.cfg.Accounting != AdmitMax {
		e.cost = e.expected()
	}
	e.fair = e.asked.fair
	if e.fair <= 0 || e.fair > e.expect {
		e.fair = e.expect
	}
	e.virtual = p.moves(e)
}

// moves is the virtual cost by which an entry moves tags. A call that takes nothing of any axis still
// moves one, and its kept place shows.
func (p *Pool) moves(e *entry) int64 {
	return max(1, p.virtualCost(e.expected().counting(e.fair), e.run))
}

// paces is the same of all that the books count, as the lead does.
func (p *Pool) paces(e *entry) int64 {
	if e.fair == e.expect || e.forced {
		return e.virtual
	}
	return max(1, p.virtualCost(e.expected(), e.run))
}

// Clamp cuts a cost to the pool's limits. A call estimated above a whole
// minute goes when the minute is free of use; its true cost beyond that is
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

// virtualCost is a call's dominant share of the pool's minute, in tag units: of
// each rolling axis, and the time it occupies a slot.
func (p *Pool) virtualCost(c Cost, run time.Duration) int64 {
	v := int64(0)
	for k := range p.axes {
		if a := &p.axes[k]; a.on {
			v = max(v, muldiv.Ceil(c[k], tagUnit, a.limit))
		}
	}
	if p.cfg.Slots > 0 {
		whole := muldiv.Ceil(int64(run/time.Microsecond), tagUnit, windowMicros)
		v = max(v, muldiv.Ceil(whole, 1, p.cfg.Slots))
	}
	return min(v, maxVirtualCost)
}

// usualRun is how long calls ran so far, and a guess before the first has ended.
func (p *Pool) usualRun() time.Duration {
	if p.meanRun == 0 {
		return time.Second
	}
	return p.meanRun
}

// learnRun moves the mean by a sixteenth towards how long a call ran.
func (p *Pool) learnRun(run time.Duration) {
	if p.meanRun == 0 {
		p.meanRun = run
	}
	p.meanRun += (run - p.meanRun) / 16
}

// perSlot is how many grains a call produces in one slot of the calendar; 0 is all at
// once.
func (e *entry) perSlot() int64 {
	if e.speed <= 0 {
		return 0
	}
	return min(e.speed, MaxLimit) * grain / (calendarSlots / int64(Window/time.Second))
}

// expected is the part of a call's cost that it will probably take.
func (e *entry) expected() Cost {
	c := e.after(e.expect)
	c[Output] = min(c[Output], e.cost[Output])
	return c
}

// after is the cost of a call up to so many tokens, of which those of its input come first.
func (e *entry) after(tokens int64) Cost {
	return Cost{Tokens: tokens, Requests: e.cost[Requests], Input: min(e.cost[Input], e.input), Output: max(0, tokens-e.input)}
}

// planned is a call's cost on an axis: the part that it takes at once, and the part that it takes while it runs, in a calendar.
func (e *entry) planned(k Axis) (atOnce, later int64) {
	if k == Tokens {
		atOnce = e.input
	}
	return atOnce, e.expected()[k] - atOnce
}

// refund is what a call will probably give back when it ends.
func (e *entry) refund() Cost { return e.cost.less(e.expected()) }
