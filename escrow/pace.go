package escrow

import (
	"time"

	"github.com/llmgov/llmgov/internal/lib/muldiv"
)

// paceSlots is how finely a pool's minute is cut: 0.1 s, which strands 1/601
// of a saturated limit.
const paceSlots = 600

// lookahead is how often a Window the taut string looks at the room to come:
// once a second. Looking every slot costs ten times as much and gains nothing.
const lookahead = 60

// pace hands out one axis of a pool over time. Without it the first tenants of a minute would take
// the whole minute, in whatever order they are served, and those who come later would find nothing.
//
// It is one level that refills at a rate. The rate is a taut string: the steepest line which,
// starting from the present level, stays under the room that the ring of past dispatches
// will have, at every second of the next Window. So an idle pool gives its burst at once, a
// saturated one runs at its limit, and a burst that was taken too early is paid back by a slower refill:
// no second book of burst tokens is needed, and settles, refunds and restarts heal by themselves.
type pace struct {
	limit int64   // units a Window
	ring  *Ledger // of past dispatches; unless they are apart, the axis's ledger

	base  int64 // one second of limit: the level at the start
	whole int64 // the most that the level saves up: at least base, or one request of an even pace
	burst int64 // the part of it that is handed out

	level    int64 // that may be dispatched now; negative is the debt of a call larger than burst
	rate     int64 // at which the level rises, in 1/scale units a Window
	fraction int64 // of a unit that it has risen, in 1/(scale·windowMicros)
	scale    int64 // keeps a rate of few requests a minute from being rounded away
	part     int64 // of the limit's rate, in parts of WholePace

	largest  int64 // of the calls of late, decaying
	minSlack int64 // of the string, if the limit does not count by the ring

	lead         int64 // dispatched ahead of a fluid server at limit units a Window
	leadFraction int64 // of a unit that it has fallen, in 1/windowMicros

	// granted says that level and rate follow an allowance instead, and spent counts
	// the amount handed out: see grant.go. usual is the rate of the allowances of late, and sated is when
	// the last one came for which nobody waited.
	granted   bool
	allowance Allowance
	spent     int64
	usual     int64
	sated     time.Time

	handed int64 // out by now, less refunds

	last time.Time
}

const windowMicros = int64(Window / time.Microsecond)

func newPace(now time.Time, limit, burst int64, ring *Ledger) pace {
	p := pace{ring: ring, last: now, part: WholePace}
	p.resize(limit, burst)
	// A pool starts with one second, not with its burst: after a restart the
	// ring may be empty because it was lost, not because the minute was idle. See Recalled.
	p.level = min(p.base, p.burst)
	return p
}

// resize changes the limit and the burst. Past dispatches stay. The level rises by as much as the limit does, and falls by as much, though not
// below zero, so that a limit that goes up and down gives nothing.
func (p *pace) resize(limit, burst int64) {
	p.level = max(min(p.level, 0), p.level+limit-p.limit)
	p.limit = limit
	if scale := max(1, min(1000, MaxLimit/limit)); scale != p.scale {
		p.scale = scale
		p.fraction = 0 // which is in its parts
	}
	p.base = max(1, limit/int64(Window/time.Second))
	p.whole = burst
	p.slow(p.part)
}

// slow makes it a part of the rate that is handed out, and of the burst.
func (p *pace) slow(part int64) {
	p.part = part
	p.burst = muldiv.Ceil(p.whole, part, WholePace)
	p.fill()
	p.rate = p.steady()
	if p.granted {
		p.follow()
	}
}

// loosen sets the least slack of the string, if its ring is apart from what the limit
// counts.
func (p *pace) loosen(apart bool) {
	p.minSlack = 0
	if apart {
		p.minSlack = p.base * int64(apartSlack/time.Second)
	}
}

// steady is the rate at which a saturated ring neither fills nor drains; or that of
// the allowance in force.
func (p *pace) steady() int64 {
	if p.granted && p.rate > 0 {
		return p.rate
	}
	n := int64(len(p.ring.slots))
	return muldiv.Ceil(p.limit*p.scale*(n-1)/n, p.part, WholePace)
}

// A process that shares a limit can count on 1/leastComing of the whole rate.
const leastComing = 256

// coming is the rate to expect from now on if so much lacks. A tiny allowance, which a process gets that has just
// joined or asked for nothing, does not last: there is more within a second or two of asking for
// it. Neither does a missing one: when allowances come again, they are as large as before. A small allowance says
// nothing while calls have not waited for a Window: what lacks is expected at the rate of the limit, because the usage
// that others had before leaves the minute until then.
func (p *pace) coming(lack int64) int64 {
	if !p.granted {
		return max(1, p.steady())
	}
	limit := p.limit * p.scale
	least := limit / leastComing
	if p.last.Sub(p.sated) < Window {
		inWindow := muldiv.Ceil(limit, lack, p.limit+lack) // it takes a Window longer than limit does
		least = max(least, inWindow)
	}
	usual := min(p.usual, p.limit) * p.scale
	return max(p.rate, usual, least, 1)
}

// advance brings level and lead to now. busy says that calls are queued.
func (p *pace) advance(now time.Time, busy bool) {
	if !now.After(p.last) {
		return
	}
	if p.granted {
		before := p.ring.cur
		p.ring.Advance(now)
		for n := p.ring.cur - before; n > 0 && p.largest > 0; n-- {
			p.forget()
		}
		p.last = now
		p.lead = 0
		p.follow()
		return
	}
	for p.ring.turns(now) {
		if !busy && p.rested() {
			p.rest(now)
			return
		}
		p.refill(p.ring.startOf(p.ring.cur + 1))
		p.ring.turn()
		p.forget()
		switch {
		case busy:
			p.rate = p.tautRate()
		case p.level < p.burst:
			p.rate = p.idleRate(p.limit - p.ring.booked)
		}
	}
	p.refill(now)
}

// forget lets the largest call of late be less so, by a slot: half of it in 35 s.
func (p *pace) forget() { p.largest -= (p.largest + 511) / 512 }

// rested reports whether nothing changes any more while nobody asks.
func (p *pace) rested() bool {
	return p.ring.booked == 0 && p.level == p.burst && p.lead == 0 && p.largest == 0
}

// rest lets a rested pace be idle until now, to the very state in which turn after turn
// would leave it: who only looks, in between, must not change any decision.
func (p *pace) rest(now time.Time) {
	p.ring.Advance(now)
	p.last = p.last.Add(now.Sub(p.last).Truncate(time.Microsecond))
}

// idleRate is the refill while nobody waits, given the ring's room. An unspent rate
// needs no string: the level rises until it could hand out all the room, and the
// first call that has to wait makes the string taut again. (With the string
// taut at all times a burst of a whole minute would be reached only in the
// limit: 63 % of it after one idle minute.)
func (p *pace) idleRate(room int64) int64 {
	if p.level >= room+p.base {
		return 0
	}
	return p.steady()
}

// refill lets the level rise, and the lead fall, until now: at most one slot.
func (p *pace) refill(now time.Time) {
	micros := int64(now.Sub(p.last) / time.Microsecond)
	if micros <= 0 {
		return
	}
	p.rise(micros)

	v := p.limit*micros + p.leadFraction
	p.lead -= v / windowMicros
	p.leadFraction = v % windowMicros
	if p.lead <= 0 {
		p.lead = 0
		p.leadFraction = 0
	}
}

// rise lets the level rise for so long.
func (p *pace) rise(micros int64) {
	p.last = p.last.Add(time.Duration(micros) * time.Microsecond)
	// rate ≤ MaxLimit and micros ≤ a slot, so the product stays below 2⁶³.
	v := p.rate*micros + p.fraction
	p.level += v / (windowMicros * p.scale)
	p.fraction = v % (windowMicros * p.scale)
	p.fill()
}

// fill lets the level rise no further than the burst.
func (p *pace) fill() {
	if p.level >= p.burst {
		p.level = p.burst
		p.fraction = 0
	}
}

// apartSlack is the slack of a string drawn over dispatches while the provider counts something
// else, which a ledger of its own sees to. Drawn as tight as over the limit itself, the string
// passes every gap that the ledger makes on to the next minute: 96.6 % of a pool whose calls have
// unknown lengths, instead of 98.8 %. With no string at all a burst is paid back at once, by a
// stall.
const apartSlack = 6 * time.Second

// slack is how far the ring may stray from a straight line because calls are indivisible. With none
// at all a saturated pool loses 1 % of its limit. With a second of it, a pool whose calls take up
// to a seventh of the minute loses 6 % instead of 3. With a fixed second, a gap of a second, such
// as the one after the start's first second, comes back every minute for ever if calls are small
// and all alike.
func (p *pace) slack() int64 {
	calls := 2 * p.largest
	return max(p.minSlack, p.base/4, min(p.base, calls), calls-p.base)
}

// tautRate is the steepest refill that stays under the room to come, give or take
// the slack. It does not look closer than two seconds ahead.
func (p *pace) tautRate() int64 {
	r := p.ring
	n := int64(len(r.slots))
	perLook := (n - 1) / lookahead
	room := p.limit - r.booked
	slack := p.slack() - max(0, p.level)
	best := p.steady()
	i := (r.cur + 1) % n // the oldest slot: it leaves at the next turn
	for sec := int64(1); sec <= lookahead; sec++ {
		leaving := perLook
		if sec == 1 {
			leaving-- // at the end of the current slot one slot less has left
		}
		for ; leaving > 0; leaving-- {
			room += r.slots[i]
			i++
			if i == n {
				i = 0
			}
		}
		if sec >= 2 {
			best = min(best, (room+slack)*p.scale*lookahead/sec)
		}
	}
	return max(0, best)
}

// need is the level at which a call of cost c may go. One larger than the
// burst goes when the level is at that, and leaves a debt; but not beyond an
// allowance, because the rest is another process's.
func (p *pace) need(c int64) int64 {
	if p.granted {
		return c
	}
	return min(c, p.burst)
}

// take pays for a dispatched call of cost c, which is expected to really take the amount expected.
func (p *pace) take(c, expected int64) {
	p.spent += c
	p.handed += c
	p.level -= c
	p.lead += expected
	p.largest = max(p.largest, c)
}

// correct changes the cost of a dispatched call by d, and by more the cost that was
// expected. Debt is bounded by the amount that one minute can pay back: all of it stands in
// the ring as well, which blocks until it has left the window, and need not be waited
// for twice.
func (p *pace) correct(d, more int64) {
	p.spent += max(0, d)
	p.handed += d
	if p.granted {
		p.level -= max(0, d)
		return
	}
	p.level = max(min(p.burst, p.level-d), p.burst-p.limit-p.base)
	p.lead = max(0, p.lead+more)
}

// readyAt is when the level will reach need at today's rate, and never later
// than the next slot turn, when the rate changes.
func (p *pace) readyAt(need int64) time.Time {
	turn := p.ring.startOf(p.ring.cur + 1)
	if at := p.last.Add(p.until(need)); at.Before(turn) {
		return at
	}
	return turn
}

// until is how long after the last advance the level reaches need at today's
// rate: rounded up, and an hour for never.
func (p *pace) until(need int64) time.Duration {
	if p.level >= need {
		return 0
	}
	if p.rate <= 0 {
		return time.Hour
	}
	return p.refillTime(need-p.level, p.rate)
}

// refillTime is how long it takes to refill by units at a rate, rounded up, and at
// most an hour.
func (p *pace) refillTime(units, rate int64) time.Duration {
	micros := max(0, muldiv.Ceil(units, windowMicros*p.scale, rate)-p.fraction/rate)
	return time.Duration(min(micros, int64(time.Hour/time.Microsecond))) * time.Microsecond
}
