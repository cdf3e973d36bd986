package simulate

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

const (
	// fluidStep is how finely the fluid oracle cuts time. What a request misses by
	// arriving inside a step is at most 1/1200 of a window.
	fluidStep = 50 * time.Millisecond
	// fluidSpare is how much unused rate the oracle may catch up.
	fluidSpare = time.Second
)

// chunk is what is left of one request in the fluid system.
type chunk struct {
	left, free float64
	speed      float64 // at which all beyond free can be taken; 0 when all is free
	expires    time.Duration
	begun      bool
}

// available is what it can take in one step.
func (c *chunk) available(dt float64) float64 {
	if c.speed == 0 {
		return c.left
	}
	return min(c.left, c.free+c.speed*dt)
}

// fluid is the oracle that is not clairvoyant: at every instant the rate is
// shared by weighted max-min between those who want something just then (GPS,
// generalised to a tree). No request is too large for it, and it sees nothing
// of the future; so it is what a real scheduler can hope to come near. It steps
// through time; see fluidStep.
func (p *plan) fluid(requests []Request, m measure, into ...*grid) {
	n := len(p.tree.Leaves)
	queues := make([][]chunk, n)
	demands, shares := make([]float64, n), make([]float64, n)
	dt := fluidStep.Seconds()
	capacity := m.perSecond() * dt
	spare, mostSpare := 0.0, m.perSecond()*fluidSpare.Seconds()
	if m.axis == escrow.Slots {
		mostSpare = 0 // a slot that was idle is gone
	}
	next := 0
	for now := time.Duration(0); now < p.Duration; now += fluidStep {
		for ; next < len(requests) && requests[next].At < now+fluidStep; next++ {
			if r := &requests[next]; !r.Worker {
				queues[r.Tenant] = append(queues[r.Tenant], p.chunk(r, m))
			}
		}
		for i := range demands {
			demands[i] = p.workersDemand(i, now, m) * dt
			queues[i] = dropExpired(queues[i], now)
			for k := range queues[i] {
				demands[i] += queues[i][k].available(dt)
			}
		}
		p.tree.MaxMin(capacity+spare, demands, shares)
		used := 0.0
		for i, x := range shares {
			if x == 0 {
				continue
			}
			used += x
			for _, g := range into {
				g.add(now, i, x)
			}
			queues[i] = serve(queues[i], x, dt)
		}
		spare = min(max(capacity+spare-used, 0), mostSpare)
	}
}

func (p *plan) chunk(r *Request, m measure) chunk {
	c := chunk{left: m.of(r), expires: r.At + p.Patience}
	switch {
	case r.Run <= 0 || m.axis == escrow.Requests:
	case m.axis == escrow.Slots:
		c.speed = 1
	case p.Pool.Accounting == escrow.Production:
		c.free = float64(r.Input)
		c.speed = float64(r.Tokens-r.Input) / r.Run.Seconds()
	}
	return c
}

// workersDemand is what the workers of a leaf want a second at a time.
func (p *plan) workersDemand(leaf int, now time.Duration, m measure) float64 {
	for i := range p.phases[leaf] {
		ph := &p.phases[leaf][i]
		if ph.Kind == Backlogged && ph.from <= now && now < ph.to {
			return m.closedLoop(ph.Workers, p.average[leaf])
		}
	}
	return 0
}

// dropExpired forgets requests whose callers gave up before they were begun. All have
// the same patience, so who came later gives up later.
func dropExpired(queue []chunk, now time.Duration) []chunk {
	late := 0
	for late < len(queue) && queue[late].expires < now {
		late++
	}
	return keep(queue, late, func(c *chunk) bool { return c.begun })
}

// serve gives a queue an amount, first come first served.
func serve(queue []chunk, amount, dt float64) []chunk {
	const dust = 1e-9
	served := 0
	for served < len(queue) && amount > dust {
		c := &queue[served]
		x := min(amount, c.available(dt))
		amount -= x
		c.left -= x
		c.free = max(0, c.free-x)
		c.begun = true
		served++
	}
	return keep(queue, served, func(c *chunk) bool { return c.left > dust })
}

// keep takes out those of the first n that are not to stay.
func keep(queue []chunk, n int, stays func(*chunk) bool) []chunk {
	at := n
	for i := n - 1; i >= 0; i-- {
		if stays(&queue[i]) {
			at--
			queue[at] = queue[i]
		}
	}
	return queue[at:]
}

// clairvoyant is the oracle that knows each window's demand beforehand, and
// shares the window's whole capacity by weighted max-min of it. No scheduler
// without foresight can match it when somebody comes late in a window; the
// fluid oracle's own distance from it is the measure of that.
func (p *plan) clairvoyant(requests []Request, m measure, out *grid) {
	demand := newGrid(out.from, out.width, out.from+out.width*time.Duration(len(out.cells)), len(p.tree.Leaves))
	for i := range requests {
		if r := &requests[i]; !r.Worker {
			demand.add(r.At, int(r.Tenant), m.of(r))
		}
	}
	for leaf, phases := range p.phases {
		for i := range phases {
			ph := &phases[i]
			if ph.Kind != Backlogged {
				continue
			}
			rate := m.closedLoop(ph.Workers, p.average[leaf])
			for k := range demand.cells {
				from := demand.from + time.Duration(k)*demand.width
				overlap := min(ph.to, from+demand.width) - max(ph.from, from)
				demand.cells[k][leaf] += rate * max(overlap, 0).Seconds()
			}
		}
	}
	for k := range out.cells {
		p.tree.MaxMin(m.perSecond()*out.width.Seconds(), demand.cells[k], out.cells[k])
	}
}
