package escrow

import (
	"math"
	"slices"
)

// Moved says where upstreams stand in another list of them.
type Moved struct {
	// To is the index of each in the list now; -1 if it has left.
	To []int
	// All are those of the list now.
	All Mask
}

// index is where an upstream stands now; -1 if it has left.
func (m *Moved) index(upstream int) int {
	if upstream < 0 || upstream >= len(m.To) {
		return -1
	}
	return m.To[upstream]
}

// mask is where some upstreams stand now; all, if none of them is left.
func (m *Moved) mask(via Mask) (now Mask) {
	for ; via != 0; via &= via - 1 {
		if i := m.index(via.first()); i >= 0 {
			now = now.With(i)
		}
	}
	if now == 0 {
		return m.All
	}
	return now
}

// inPlace are values by upstream, each where its upstream stands now. Those of new upstreams are none.
func inPlace[T any](m *Moved, before []T, none T) (now []T) {
	for i, x := range before {
		at := m.index(i)
		for len(now) <= at {
			now = append(now, none)
		}
		if at >= 0 {
			now[at] = x
		}
	}
	return now
}

// SetUpstreams puts another list of upstreams in force, whose limits are set; nil is none. moved is where those before stand in
// it. A running call counts where it began, or nowhere if that has left, and restrictions hold on at the upstreams that stay. Call Pump afterwards.
func (p *Pool) SetUpstreams(u Upstreams, moved Moved) {
	p.upstreams = u
	p.parted = u != nil
	p.passed = everywhere
	p.full = inPlace(&moved, p.full, neverFull)
	for i := range p.nodes {
		nd := &p.nodes[i]
		nd.restricted = slices.DeleteFunc(nd.restricted, func(r restriction) bool { return u == nil || moved.index(r.upstream) < 0 })
		for k := range nd.restricted {
			nd.restricted[k].upstream = moved.index(nd.restricted[k].upstream)
		}
		nd.via = moved.mask(nd.via)
		if nd.inner != nil {
			nd.levels = inPlace(&moved, nd.levels, level{low: math.MaxInt64, before: math.MaxInt64})
		}
	}
	for n := range p.entries {
		p.entries[n].move(&moved, u != nil)
	}
	p.weighAll()
	p.restandAll()
}

// move has an entry follow its upstreams, if there are any now.
func (e *entry) move(m *Moved, there bool) {
	e.may = m.mask(e.may)
	e.upstream = m.index(e.upstream)
	if !there { // the pool counts as one
		e.upstream = 0
	}
}

// At is the upstream at which a running call counts; -1 if that has left. It is 0 in a pool without Upstreams.
func (p *Pool) At(h Handle) (upstream int) {
	n, ok := p.find(h, entryRunning)
	if !ok {
		return -1
	}
	return p.entries[n].upstream
}

// weighAll weighs all calls that wait, and all kept places, anew.
func (p *Pool) weighAll() {
	for n := range p.entries {
		e := &p.entries[n]
		if e.state != entryQueued && e.state != entryTicket {
			continue
		}
		p.count(e, -1)
		p.weigh(e)
		p.count(e, 1)
	}
}

// restandAll puts all nodes in the lanes of the upstreams that their calls may use.
func (p *Pool) restandAll() {
	for i := range p.nodes {
		if nd := &p.nodes[i]; nd.weight > 0 && nd.inner == nil {
			p.restandUp(NodeID(i))
		}
	}
}
