package escrow

import (
	"time"

	"github.com/llmgov/llmgov/internal/lib/muldiv"
)

// WholeMinute is the virtual cost of one Window of a pool, in which Account is told.
const WholeMinute = tagUnit

// Account counts the service of a leaf and its demand, as virtual costs: the amounts that tags move
// by. The counters only rise; the service of an interval is the difference of two Accounts.
type Account struct {
	// Received is all that it was ever served, put right by the true costs of calls.
	Received int64
	// Refunded is how much of that was given back, at their ends, by calls that had been charged too much
	// when they were dispatched: by their marks (Mark), modulo Marks. RefundedLate is of those that
	// are of older marks than the last ones.
	Refunded     [Marks]int64
	RefundedLate int64
	// Waiting is the cost of the calls that wait there, kept places included; Kept is that of the places.
	// Background calls that the interactive reserve keeps waiting are left out, because the reserve exists to
	// keep slots from them. So are those of a leaf at its soft cap or its restrictions, and those that keep out of the last slots.
	Waiting, Kept int64
	// Turned is the cost of all calls that ever went away from there unserved: refused for good, withdrawn from
	// the queue, or not come back for. Of calls that are refused at once and say that they
	// were before, none counts again, and none that the interactive reserve, the soft cap or the hold-back kept out counts.
	Turned int64
	// Usual is the virtual cost of a usual call of the leaf: an average of late.
	Usual int64
	// Debt is how far the leaf's tag is past its siblings' virtual time: the service that it has had
	// before its turn, as a call that took more than it declared.
	Debt int64
}

// Marks is how many marks calls are told apart by.
const Marks = 12

// Mark marks the calls that are dispatched from now on, with a number that grows: so who looks at
// accounts from time to time can tell which of them gave something back.
func (p *Pool) Mark(n int64) { p.mark = n }

// Account reports that of a leaf, or of the parent of Joined ones.
func (p *Pool) Account(i NodeID) Account {
	n := &p.nodes[i]
	a := Account{Received: n.received, Waiting: n.backlog, Kept: n.promised}
	if by, _ := p.KeptOut(i); by != nil {
		a.Waiting = 0
		if by.Of == Background {
			a.Waiting = n.backlog - n.later
		}
		a.Kept = min(a.Kept, a.Waiting)
	}
	if int(i) < len(p.told) {
		a.Turned = p.told[i].turned
		a.Usual = p.told[i].usual
		a.Refunded = p.told[i].refunded
		a.RefundedLate = p.told[i].late
	}
	if ahead := n.finish - p.virtualOf(p.nodes[n.parent].inner); ahead > 0 {
		a.Debt = muldiv.Floor(ahead, n.weight, weightOne)
	}
	return a
}

// TokensOf is a virtual cost as tokens: 0 in a pool without a limit of these.
func (p *Pool) TokensOf(virtual int64) int64 {
	return signedMulDiv(virtual, p.cfg.Tokens(), tagUnit)
}

// told counts the demand of a leaf's callers, and the refunds of their calls. It is no part of the
// books, since a refusal leaves these as they were.
type told struct {
	turned, usual int64
	refunded      [Marks]int64
	late          int64
	demand        Demand // but what waits
}

// counts is the node whose demand a leaf's calls are.
func (t *tree) counts(leaf NodeID) NodeID {
	if t.nodes[leaf].claim.Joined {
		return t.nodes[leaf].parent
	}
	return leaf
}

// toldOf returns the counts of a leaf's demand.
func (p *Pool) toldOf(i NodeID) *told {
	i = p.counts(i)
	for int(i) >= len(p.told) {
		p.told = append(p.told, told{})
	}
	return &p.told[i]
}

// note takes in a call that is offered.
func (l *told) note(e *entry) {
	if l.usual == 0 {
		l.usual = e.virtual
	}
	l.usual += (e.virtual - l.usual) / 8
}

// noteRefund notes that a running call gives back a part of its charge at the time when it was
// dispatched. A charge since then is nobody's refund.
func (p *Pool) noteRefund(e *entry, took int64) {
	switch back := e.virtual - e.raised - took; {
	case back <= 0:
	case p.mark-e.mark < Marks:
		p.toldOf(e.leaf).refunded[e.mark%Marks] += back
	default:
		p.toldOf(e.leaf).late += back
	}
}

// leave takes in that a call went away unserved, from the line or from its kept place.
func (p *Pool) leave(e *entry) {
	p.turnAway(e)
	if !e.turn.IsZero() {
		p.learnPatience(e, false)
	}
}

// turnAway takes in that a call goes away unserved.
func (p *Pool) turnAway(e *entry) {
	if by, _ := p.keptBy(e.leaf, e.class, e); by == nil {
		p.toldOf(e.leaf).turned += e.virtual
	}
}

// idleness watches for amounts of an axis that a pool could hand out but does not, while calls wait for them.
type idleness struct {
	unused int64 // in all, so far

	since   int64 // µs of the pool, when the present stretch began
	handed  int64 // pace.handed then
	busy    bool  // calls have waited for the axis in all of it
	short   int64 // by how much less than the rate was handed out because there was none
	largest int64 // of the heads of the queue that waited for the axis in it
}

// lookEvery is how long a stretch is, in µs. Each stretch is rounded to a token.
const lookEvery = int64(time.Second / time.Microsecond)

// watch brings it to now, before anything changes. A shortfall against the rate is
// unused, beyond a second of the rate and one call, which I2 leaves to every pool, and so far as
// the ledger has room for it: a pool whose minute is full has none to hand out.
func (p *Pool) watch(k Axis) {
	u := &p.idle[k]
	a := &p.axes[k]
	if p.waiting() == 0 || p.blocked != k || !p.held.IsZero() || p.upstreams != nil && p.passed != everywhere {
		u.busy = false
	}
	elapsed := p.now - u.since
	if elapsed < lookEvery {
		return
	}
	rate := a.pace.steady() / a.pace.scale
	u.short += muldiv.Floor(rate, min(elapsed, windowMicros), windowMicros) - (a.pace.handed - u.handed)
	if slack := a.pace.base + max(a.pace.largest, u.largest); u.busy && u.short > slack {
		u.unused += min(u.short-slack, max(0, a.limit-a.used()-slack))
		u.short = slack
	} else if !u.busy {
		u.short = min(u.short, 0)
	}
	u.short = max(u.short, -a.limit)
	u.since = p.now
	u.handed = a.pace.handed
	u.busy = true
	u.largest = 0
}

// Unused is how many tokens the pool could have handed out by now, and did not, while
// calls waited for them: what Pump, called in time, leaves no room for.
func (p *Pool) Unused(now time.Time) int64 {
	p.advance(now)
	return p.idle[Tokens].unused + p.idle[Input].unused + p.idle[Output].unused
}
