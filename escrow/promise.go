package escrow

import (
	"time"

	"github.com/llmgov/llmgov/internal/lib/muldiv"
)

// A promise is the time after which a refused call is told to come back. Its turn is when the pool
// will serve it, if it is there (Pool.turn). The promise differs from the turn, for four reasons.
//
//   - Others take the turns of a leaf that has nobody in line. A caller that is a little early waits
//     in line for its turn, and one that is late cannot be called. So callers come a quarter of their
//     wait early, but by no more than half of the time that they may wait in line, less the time that their
//     own call takes of the leaf's time. If calls are so large that this is less than nothing, nobody
//     knows the turn that well, and callers come late instead.
//   - Of a far turn less is known. A caller that comes too early for it is refused again; one that
//     comes late keeps its place. So the part beyond farTurn is lengthened by a third.
//   - Callers give up. If most of a leaf's callers are gone after so long a promise, it is shortened to
//     one that they wait for, as long as their turn comes within three quarters of the time that they
//     may then wait in line, less the time that their own call takes.
//   - The callers of a leaf come when they were told to, even if their turns would come sooner by
//     now. A newcomer may use the time until then, if that makes none of them late.

// lateAllowed is how much later than promised a newcomer may make others.
const lateAllowed = 2 * time.Second

// promise is when a refused call is told to come back.
func (p *Pool) promise(now time.Time, e *entry) time.Duration {
	least, slot := p.predict(now, e, 0, forever)
	if !e.known && least <= farTurn {
		return max(least, slot) // it gets a place, and may have others
	}
	turn := p.turn(now, e, least)
	held := p.heldFor(now)
	wait := turn - held
	switch {
	case p.cfg.TicketWait <= 0 || !e.known || p.nodes[Root].backlog == 0 || wait <= 0:
	case !e.turn.IsZero(): // the last promise was too short
		turn += wait / 2
	default:
		g := p.gapsOf(now, e, wait)
		turn = held + g.earliest(e)
	}
	return max(turn, slot)
}

// gaps are the times between the promises to the callers of a leaf, for a call that would have its
// turn behind them all. Times are from when the pool is no longer held.
type gaps struct {
	*Pool
	now   time.Time
	first time.Duration // until the turn of the call, if it went before them all
	wait  time.Duration // until its turn behind them
	all   int64         // virtual cost of these
	line  time.Duration // how long the call may wait in line
	bears time.Duration // the longest promise that most callers of the leaf wait for
}

func (p *Pool) gapsOf(now time.Time, e *entry, wait time.Duration) gaps {
	held := p.heldFor(now)
	leaf := &p.nodes[e.leaf]
	g := gaps{
		Pool:  p,
		now:   now.Add(held),
		first: wait,
		wait:  wait,
		all:   leaf.expected(),
		line:  p.cfg.TicketWait,
		bears: forever,
	}
	if e.maxWait > 0 {
		g.line = e.maxWait
	}
	if leaf.patience != nil {
		g.bears = leaf.patience.longest()
	}
	if g.all > 0 {
		alone := *e
		alone.turn = p.start // before all others
		least, _ := p.predict(now, &alone, 0, forever)
		g.first = min(max(0, least-held), wait)
	}
	return g
}

// takes is how long the leaf is served for so much.
func (g *gaps) takes(virtual int64) time.Duration {
	return time.Duration(muldiv.Floor(max(0, virtual), int64(g.wait-g.first), max(1, g.all)))
}

// after is the promise to a call that so much of its leaf goes before.
func (g *gaps) after(virtual int64, e *entry) time.Duration {
	turn := g.first + g.takes(virtual)
	own := g.takes(e.virtual)
	early := max(-turn/4, min(turn/4, g.line/2-own))
	far := max(0, turn-farTurn) / 3
	earliest := turn - max(0, g.line*3/4-own)
	return min(turn-early+far, max(g.bears, earliest))
}

// earliest is the first promise that makes no other untrue: from the last of these on, it is as
// early as that one would still be in time if the call went before it.
func (g *gaps) earliest(e *entry) time.Duration {
	before := g.all
	left := maxWalk
	for n := g.nodes[e.leaf].tickets.tail; n >= 0 && left > 0; n = g.entries[n].prev {
		left--
		t := &g.entries[n]
		due := t.promised.Sub(g.now)
		earlier := before - g.expects(t)
		if g.after(earlier+e.virtual, e) > due+lateAllowed {
			return min(g.after(g.all, e), max(g.after(before, e), due))
		}
		before = earlier
	}
	return g.after(before, e)
}
