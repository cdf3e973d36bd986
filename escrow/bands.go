package escrow

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/internal/lib/muldiv"
)

// Priority bands keep slots free for bursts of the tenants that matter most (Config.HoldBack). The calls of a leaf that is
// some bands below the highest (Node.Below) keep out of the last slots, and the more so the lower it is. Whose turn it is
// among those that need not keep out, weights decide as ever.
//
//   - A call that is held back lets calls pass that are of higher bands or have risen to them, and nobody else. It keeps its
//     tag, so that its leaf makes up for that later.
//   - A call that waits rises while its leaf has less than its share of the slots in use: by a band for each riseAfter, and to
//     the highest in half of the time that it may wait. So nobody starves: who waits has its share in the long
//     run, however many calls of higher bands come. But a leaf that has its share does not rise, or those that
//     always have calls waiting would soon leave nothing free.
//   - While a call of a higher band waits that would take the next slot, this is not left free anyway. Then all rise, and
//     turns decide; but not if the slots are shared with other processes, where turns of one process would make up for nothing. A call
//     would not take it if slots were free when it came to wait, or if the upstreams that it waits for are full. The slots then stay
//     free for calls that could use them, and it keeps none of these out.

// LowestBand is how far a node may be below the highest band.
const LowestBand = 9

// riseAfter is how long a call waits for each band that it rises.
const riseAfter = 250 * time.Millisecond

// Elsewhere is what runs in other processes that share the slots.
type Elsewhere struct {
	// Running is how many calls run there of nodes below Root, and All how many of all.
	Running map[NodeID]int64
	All     int64
	// Busy is the weight of the nodes below Root of which calls run in any process.
	Busy Weight
	// Wanting are the nodes below Root that want more than their share of the slots in use anywhere, and how many calls of each run in all
	// processes. Wants is their sum.
	Wanting map[NodeID]int64
	Wants   struct {
		Weight Weight
		Calls  int64
	}
}

// ShareElsewhere has shares of the slots in use be those of all processes; nil is of this one alone.
func (p *Pool) ShareElsewhere(e *Elsewhere) { p.elsewhere = e }

// owes reports whether a node below Root has less than its share of the slots that are in use anywhere, given how many calls of it
// run, and how many of all run here. It does if it has less than its weight makes of all, or no more than that of what those have that want
// more as well: others leave them the rest. If it has as much as these, turns decide who has the next; or it would only ever have its
// share or less.
func (e *Elsewhere) owes(i NodeID, of Weight, running, here int64) bool {
	w := of.Thousandths()
	if muldiv.Floor(running, max(e.Busy.Thousandths(), w), w) < here+e.All {
		return true
	}
	calls := e.Wants.Calls
	weight := e.Wants.Weight.Thousandths()
	if own, wants := e.Wanting[i]; wants {
		calls -= own
		weight -= w
	}
	return calls > 0 && muldiv.Floor(running, max(0, weight), w) <= calls
}

// owed reports whether a leaf has less than its share of the slots in use: if the leaf, or a node above it,
// runs fewer calls by weight than its siblings and it do on average. O(depth).
func (p *Pool) owed(i NodeID) bool {
	for p.nodes[i].inner != nil {
		second, ok := p.firstBelow(i, background)
		if !ok {
			return false
		}
		i = NodeID(second.id)
	}
	for ; i != Root; i = p.nodes[i].parent {
		nd := &p.nodes[i]
		if nd.parent == Root && p.elsewhere != nil {
			return p.elsewhere.owes(i, nd.claim.Weight, int64(nd.running)+p.elsewhere.Running[i], p.running)
		}
		up := &p.nodes[nd.parent]
		all := int64(up.running)
		if nd.parent == Root {
			all = p.running
		}
		if muldiv.Floor(int64(nd.running), up.busy, nd.weight) < all {
			return true
		}
	}
	return false
}

// rises reports whether calls that the rule keeps waiting rise.
func (r *Rule) rises() bool { return r != nil && r.Of == Lower }

// hasRoom reports whether calls so far below the highest band may begin beside so many.
func (r *Rule) hasRoom(running int64, below int) bool { return below == 0 || running < r.Most[below] }

// keepsOut reports whether a rule of lower bands keeps a call out of the last slots. It begins in the room of any band that it has been in:
// shared slots may leave a band less room here than a lower one.
func (p *Pool) keepsOut(r *Rule, leaf NodeID, e *entry) bool {
	from := p.nodes[leaf].claim.Below
	to := from
	if e != nil && e.state == entryQueued && from > 0 {
		if risen := p.risen(leaf); risen > 0 && p.mayRise(r, leaf) {
			to = max(0, from-risen)
		}
	}
	for below := to; below <= from; below++ {
		if r.hasRoom(p.running, below) {
			return false
		}
	}
	return true
}

// risen is how many bands the calls that wait at a leaf have risen: as many as one of those has that are next.
func (p *Pool) risen(leaf NodeID) (bands int) {
	for _, list := range p.nodes[leaf].calls {
		if list.head >= 0 {
			e := &p.entries[list.head]
			bands = max(bands, int((p.now-e.asked.at)/e.rises()))
		}
	}
	return bands
}

// mayRise reports whether the calls that wait at a leaf rise.
func (p *Pool) mayRise(r *Rule, leaf NodeID) bool {
	if p.elsewhere != nil { // turns here are no shares of the slots in use anywhere
		return p.owed(leaf)
	}
	for below := range p.nodes[leaf].claim.Below {
		if p.crowded && p.bands[below] > 0 && !p.stuck.has(below) && r.hasRoom(p.running, below) {
			return true
		}
	}
	return p.owed(leaf)
}

// rises is how long an entry waits for each band that it rises, in µs.
func (e *entry) rises() int64 {
	step := int64(riseAfter / time.Microsecond)
	if e.maxWait > 0 {
		step = min(step, int64(e.maxWait/time.Microsecond)/(2*LowestBand))
	}
	return max(1, step)
}

// ripensAt is when a call that is held back need not be any more, if nothing else changes; the zero time is never.
func (p *Pool) ripensAt(r *Rule, e *entry) time.Time {
	if !p.mayRise(r, e.leaf) {
		return time.Time{}
	}
	from := p.nodes[e.leaf].claim.Below
	to := from
	for !r.hasRoom(p.running, to) {
		to--
	}
	return p.start.Add(time.Duration(e.asked.at+int64(from-to)*e.rises()) * time.Microsecond)
}

// WaitingBefore is how many calls wait that a new one of a leaf does not pass, if slots are all that lacks.
func (p *Pool) WaitingBefore(leaf NodeID) (calls int64) {
	for below, n := range p.bands {
		if !p.Banded() || below <= p.nodes[leaf].claim.Below {
			calls += int64(n)
		}
	}
	return calls
}

// countBands adds (by = 1) or takes away (by = -1) the calls that wait below a node to those of their bands, unless they are below one that
// stands aside: they would not take the next slot. O(children that wait).
func (t *tree) countBands(i NodeID, by int32) {
	for up := i; up != Root; up = t.nodes[up].parent {
		if t.nodes[up].aside {
			return
		}
	}
	t.countBandsBelow(i, by)
}

func (t *tree) countBandsBelow(i NodeID, by int32) {
	nd := &t.nodes[i]
	if nd.inner == nil {
		t.bands[nd.claim.Below] += by * nd.waiting()
		return
	}
	for _, h := range nd.lanes.each() {
		for _, x := range h {
			if child := NodeID(x.id); !t.nodes[child].aside {
				t.countBandsBelow(child, by)
			}
		}
	}
}

// bandSet is a set of bands, by how far they are below the highest.
type bandSet uint16

func (s bandSet) has(below int) bool { return s&(1<<below) != 0 }

// findStuck finds the bands of which no call that waits would take the next slot, because no upstream has room for them: by the mean cost
// of those that may use the same ones. O(sets of upstreams · bands).
func (p *Pool) findStuck(now time.Time) {
	p.stuck = 0
	if p.upstreams == nil || !p.Banded() {
		return
	}
	finds := bandSet(0)
	for i := range p.waitingVia {
		v := &p.waitingVia[i]
		p.stuck |= 1 << v.below
		if _, ok := p.upstreams.Choose(now, v.via, v.mean(), 0); ok {
			finds |= 1 << v.below
		}
	}
	p.stuck &^= finds
}

// countVia adds (by = 1) or takes away (by = -1) the calls that wait at a node to those of a band that wait for their upstreams.
func (t *tree) countVia(i NodeID, below int, by int64) {
	for _, list := range t.nodes[i].calls {
		for n := list.head; n >= 0; n = t.entries[n].next {
			if e := &t.entries[n]; e.via != 0 {
				t.waitingVia.add(e, below, by)
			}
		}
	}
}

// Banded reports whether calls of lower bands keep out of the last slots.
func (p *Pool) Banded() bool {
	return slices.ContainsFunc(p.rules, func(r Rule) bool { return r.Of == Lower })
}

// firstWaiting is the first call that waits at a leaf, interactive ones before background ones; nil if none does.
func (t *tree) firstWaiting(i NodeID) *entry {
	for _, list := range t.nodes[i].calls {
		if list.head >= 0 {
			return &t.entries[list.head]
		}
	}
	return nil
}
