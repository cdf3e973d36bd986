package escrow

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow/penalty"
)

// A leaf may be restricted: then no more than some of its calls run at one upstream, whoever else has slots there, because that has failed
// some of them (package penalty). A call that finds no upstream open to it keeps its leaf aside, as one does at a soft cap: it keeps nobody
// else waiting, and the leaf does not catch up later on slots that were not for it.
//
// A pool without Upstreams has one, 0.

// restriction is how many calls of a leaf may run at an upstream, and how many do.
type restriction struct {
	upstream      int
	most, running int64
	until         time.Time
	law           penalty.Limit
}

// Forgive ends all restrictions of a leaf. Call Pump afterwards.
func (p *Pool) Forgive(leaf NodeID) { p.nodes[leaf].restricted = nil }

// Failed notes that the upstream failed a running call, which began at a time: its leaf may run fewer calls there for a while. Call Pump
// afterwards.
func (p *Pool) Failed(now time.Time, h Handle, began time.Time) {
	upstream := p.At(h)
	if upstream < 0 {
		return
	}
	leaf := p.entries[h.Slot].leaf
	l := &p.nodes[leaf].leaf
	if l.restrictedAt(upstream) < 0 {
		l.restricted = append(l.restricted, restriction{upstream: upstream, running: p.countRunning(leaf, upstream)})
	}
	l.judge(now, upstream, func(r *restriction) { r.law.Failed(now, began, r.running) })
}

// Succeeded notes that a running call comes to its end, at an upstream where so many calls may run: its leaf may run more there again. Call
// Pump afterwards.
func (p *Pool) Succeeded(now time.Time, h Handle, all int64) {
	upstream := p.At(h)
	if upstream < 0 {
		return
	}
	l := &p.nodes[p.entries[h.Slot].leaf].leaf
	if l.restrictedAt(upstream) >= 0 {
		l.judge(now, upstream, func(r *restriction) { r.law.Succeeded(now, r.running, all) })
	}
}

// judge changes the restriction at an upstream, and ends it if its law does.
func (l *leaf) judge(now time.Time, upstream int, by func(r *restriction)) {
	i := l.restrictedAt(upstream)
	r := &l.restricted[i]
	by(r)
	r.most = r.law.Most(now)
	r.until = r.law.Ends()
	if r.most == 0 {
		l.restricted = slices.Delete(l.restricted, i, i+1)
	}
}

// restrictedAt is the index of the restriction at an upstream; -1 if there is none.
func (l *leaf) restrictedAt(upstream int) int {
	return slices.IndexFunc(l.restricted, func(r restriction) bool { return r.upstream == upstream })
}

// countRunning counts the calls of a leaf that run at an upstream.
func (t *tree) countRunning(leaf NodeID, upstream int) (calls int64) {
	for n := range t.entries {
		e := &t.entries[n]
		if e.state == entryRunning && e.leaf == leaf && e.upstream == upstream {
			calls++
		}
	}
	return calls
}

// Restriction is how many calls of a call's leaf may run at the upstreams that the call may use, and how many do. Both are 0 if the leaf is
// not restricted at each of them.
func (p *Pool) Restriction(c *Call) (most, running int64) {
	if len(p.nodes[c.Leaf].restricted) == 0 {
		return 0, 0
	}
	e := p.entryOf(c)
	open := p.reach(e.via)
	for _, r := range p.nodes[c.Leaf].restricted {
		if here := Mask(0).With(r.upstream); open&here != 0 && p.holds(&r) {
			open &^= here
			most += r.most
			running += r.running
		}
	}
	if open != 0 {
		return 0, 0
	}
	return most, running
}

// restricts reports whether that keeps a call from beginning: its leaf runs as many as it may at each upstream that the call may use.
func (p *Pool) restricts(e *entry) bool {
	shut := p.shut(e.leaf)
	return shut != 0 && p.reach(e.via)&^shut == 0
}

// reach is the upstreams that a mask of a call stands for.
func (p *Pool) reach(via Mask) Mask {
	if p.upstreams == nil {
		return Mask(0).With(0)
	}
	return via
}

// holds reports whether a restriction has not come to its end.
func (p *Pool) holds(r *restriction) bool { return p.now < p.micros(r.until) }

// liftsAt is when the first of a leaf's restrictions ends that keep calls from beginning; the zero time if none does.
func (p *Pool) liftsAt(leaf NodeID) (first time.Time) {
	for _, r := range p.nodes[leaf].restricted {
		if r.running >= r.most && p.holds(&r) && (first.IsZero() || r.until.Before(first)) {
			first = r.until
		}
	}
	return first
}

// openTo is the upstreams that a call may use, without those where its leaf is at its bounds.
func (p *Pool) openTo(e *entry) Mask { return e.via &^ p.shut(e.leaf) }

// shut is the upstreams where a leaf runs as many calls as it may.
func (p *Pool) shut(leaf NodeID) (shut Mask) {
	for _, r := range p.nodes[leaf].restricted {
		if r.running >= r.most && p.holds(&r) {
			shut = shut.With(r.upstream)
		}
	}
	return shut
}

// countAt counts a call of a leaf that begins at an upstream (by = 1), or leaves it (by = -1).
func (t *tree) countAt(leaf NodeID, upstream int, by int64) {
	list := t.nodes[leaf].restricted
	for i := range list {
		if list[i].upstream == upstream {
			list[i].running += by
		}
	}
}
