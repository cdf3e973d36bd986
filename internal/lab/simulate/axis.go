package simulate

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
)

// measure is one limit of a pool as figures see it: units a minute, where a
// slot gives sixty slot-seconds a minute.
type measure struct {
	axis escrow.Axis
	// limit is the provider's; usable is the part below headroom.
	limit, usable float64
}

// measures are the limits that a pool has.
func measures(p *scenario.Pool) []measure {
	var list []measure
	for k, limit := range p.Minute() {
		if limit > 0 {
			list = append(list, measure{escrow.Axis(k), float64(limit), float64(p.Usable(limit))})
		}
	}
	if p.Concurrency > 0 {
		minute := float64(p.Slots(p.Knee)) * escrow.Window.Seconds()
		list = append(list, measure{escrow.Slots, minute, minute})
	}
	return list
}

// perSecond is the usable rate.
func (m measure) perSecond() float64 { return m.usable / escrow.Window.Seconds() }

// there is how much of a measure can be used from a time to a time. The number of slots may change, and upstreams may be lost.
func (p *plan) there(m measure, from, to time.Duration) float64 {
	if len(p.losses) > 0 {
		return p.open(m, from, to)
	}
	if m.axis == escrow.Slots {
		return m.usable / m.limit * p.slotSeconds(from, to)
	}
	return m.perSecond() * (to - from).Seconds()
}

// of is the whole cost of a request on the axis.
func (m measure) of(r *Request) float64 {
	switch m.axis {
	case escrow.Slots:
		return r.Run.Seconds()
	case escrow.Requests:
		return 1
	default:
		return float64(r.taken(m.axis, r.Tokens))
	}
}

// mean is the average cost of a request.
func (m measure) mean(a averages) float64 {
	switch m.axis {
	case escrow.Slots:
		return a.run
	case escrow.Requests:
		return 1
	case escrow.Input:
		return a.input
	case escrow.Output:
		return a.tokens - a.input
	default:
		return a.tokens
	}
}

// closedLoop is how many requests workers can make a second at most: each waits for its
// request to run, and thinks.
func closedLoop(workers int, a averages) float64 {
	think := (thinkLeast + thinkMost) / 2
	return float64(workers) / (a.run + think.Seconds())
}

// grid sums amounts by leaf and window.
type grid struct {
	from, width time.Duration
	cells       [][]float64 // by window, then leaf
}

func newGrid(from, width, until time.Duration, leaves int) *grid {
	g := &grid{from: from, width: width}
	for n := max(1, int((until-from)/width)); n > 0; n-- {
		g.cells = append(g.cells, make([]float64, leaves))
	}
	return g
}

// window is the index of the one that a time falls in; false when none does.
func (g *grid) window(at time.Duration) (int, bool) {
	if at < g.from {
		return 0, false
	}
	k := int((at - g.from) / g.width)
	return k, k < len(g.cells)
}

func (g *grid) add(at time.Duration, leaf int, amount float64) {
	if k, ok := g.window(at); ok {
		g.cells[k][leaf] += amount
	}
}

// spread adds a flow of one a second from a time to a time.
func (g *grid) spread(from, to time.Duration, leaf int) {
	for from < to {
		if from < g.from {
			from = g.from
			continue
		}
		k, ok := g.window(from)
		if !ok {
			return
		}
		end := min(to, g.from+time.Duration(k+1)*g.width)
		g.cells[k][leaf] += (end - from).Seconds()
		from = end
	}
}

// total is a leaf's sum over all windows.
func (g *grid) total(leaf int) float64 {
	sum := 0.0
	for _, row := range g.cells {
		sum += row[leaf]
	}
	return sum
}

func sum(row []float64) float64 {
	s := 0.0
	for _, x := range row {
		s += x
	}
	return s
}

// received fills grids with each leaf's usage of an axis.
func (p *plan) received(t *Trace, m measure, into ...*grid) {
	if m.axis == escrow.Slots {
		p.eachRun(t, func(r *Request, from, to time.Duration) {
			for _, g := range into {
				g.spread(from, to, int(r.Tenant))
			}
		})
		return
	}
	first := make([]time.Duration, len(t.Requests))
	t.uses(m.axis, func(e *Occurrence, amount int64) {
		at := e.At
		switch r := e.Request; {
		case amount < 0:
			at = first[r] // tokens that are given back were never received
		case first[r] == 0:
			first[r] = at
		}
		for _, g := range into {
			g.add(at, int(t.Requests[e.Request].Tenant), float64(amount))
		}
	})
}

// eachRun calls f for every request that ran, with when it did; one that runs
// at the end of the scenario ends there.
func (p *plan) eachRun(t *Trace, f func(r *Request, from, to time.Duration)) {
	began := make([]time.Duration, len(t.Requests))
	for i := range began {
		began[i] = -1
	}
	for i := range t.Events {
		e := &t.Events[i]
		switch e.Kind {
		case Admitted:
			began[e.Request] = e.At
		case Settled:
			f(&t.Requests[e.Request], began[e.Request], e.At)
			began[e.Request] = -1
		}
	}
	for i, from := range began {
		if from >= 0 {
			f(&t.Requests[i], from, p.Duration)
		}
	}
}
