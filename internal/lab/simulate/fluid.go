package simulate

import (
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
)

const (
	// fluidStep is how finely the fluid oracle cuts time. What a request misses by
	// arriving inside a step is at most 1/1200 of a window.
	fluidStep = 50 * time.Millisecond
	// fluidSpare is how much unused rate the oracle may catch up.
	fluidSpare = time.Second
	// fluidDust counts as nothing, in minutes of the pool.
	fluidDust = 1e-15
)

// amounts are of each measure of a pool.
type amounts [escrow.Rolling + 1]float64

// chunk is the rest of one request in the fluid system: its dominant share, in minutes of the
// pool.
type chunk struct {
	left, free float64
	speed      float64 // at which all beyond free can be taken; 0 when all is free
	takes      amounts // of each measure, for each minute of the pool
	expires    time.Duration
	begun      bool
}

// available is the most that it can take in one step.
func (c *chunk) available(dt float64) float64 {
	if c.speed == 0 {
		return c.left
	}
	return min(c.left, c.free+c.speed*dt)
}

// fluid is the oracle that is not clairvoyant: at every instant the rate is
// shared by weighted max-min between those who want something just then (GPS,
// generalised to a tree, and to dominant shares of several limits). No request is too large for it,
// and it sees nothing of the future; so a real scheduler can hope to come near it. It steps
// through time (see fluidStep), and adds the shares of leaves of each measure to a grid.
type fluid struct {
	*plan
	measures []measure
	into     []*grid
	tenants  []string // by leaf: the tenant that it is, or is a team of
	sets     []escrow.Mask
	queues   [][]chunk
	works    []chunk // of a leaf's workers: the average request
	demands  []float64
	shares   []float64
	spare    amounts
	whole    *wholeCalls // that come as close to it as whole calls can; nil for none
}

func (p *plan) fluid(requests []Request, measures []measure, into []*grid) {
	p.newFluid(measures, into).run(requests)
}

func (p *plan) newFluid(measures []measure, into []*grid) *fluid {
	n := len(p.tree.Leaves)
	f := &fluid{
		plan: p, measures: measures, into: into, sets: p.tree.viaSets(),
		queues: make([][]chunk, n), demands: make([]float64, n), shares: make([]float64, n),
	}
	for i := range n {
		tenant, _, _ := strings.Cut(f.tree.Leaves[i].Path, "/")
		f.tenants = append(f.tenants, tenant)
		f.works = append(f.works, f.average(i))
	}
	return f
}

// run serves all requests.
func (f *fluid) run(requests []Request) {
	next := 0
	for now := time.Duration(0); now < f.Duration; now += fluidStep {
		for ; next < len(requests) && requests[next].At < now+fluidStep; next++ {
			if r := &requests[next]; !r.Worker {
				f.queues[r.Tenant] = append(f.queues[r.Tenant], f.chunk(r))
				f.whole.come(r)
			}
		}
		f.step(now)
		f.whole.step(now)
	}
}

// step shares out the capacity until the next step.
func (f *fluid) step(now time.Duration) {
	dt := fluidStep.Seconds()
	for i := range f.demands {
		f.demands[i] = f.workersDemand(i, now) * dt
		f.queues[i] = dropExpired(f.queues[i], now)
		for k := range f.queues[i] {
			f.demands[i] += f.queues[i][k].available(dt)
		}
	}
	f.cap(dt)
	f.holdBack(dt)
	f.confine(now)
	var there amounts
	for k, m := range f.measures {
		there[k] = f.there(m, now, now+fluidStep) + f.spare[k]
	}
	f.share(there, dt)
	var used amounts
	for i, x := range f.shares {
		if x == 0 {
			continue
		}
		takes := f.takes(i, x, dt)
		for k := range f.measures {
			f.into[k].add(now, i, takes[k])
			used[k] += takes[k]
		}
		f.whole.owe(i, takes[0])
		f.queues[i] = serve(f.queues[i], x, dt)
	}
	for k, m := range f.measures {
		f.spare[k] = min(max(there[k]-used[k], 0), m.perSecond()*fluidSpare.Seconds())
		if m.axis == escrow.Slots {
			f.spare[k] = 0 // a slot that was idle is gone
		}
	}
}

// share finds the largest total of dominant shares that no limit stands against, split by max-min.
func (f *fluid) share(there amounts, dt float64) {
	// So much fits in any case: of no measure is more taken than the dominant share.
	least := there[0] / f.measures[0].usable
	for k, m := range f.measures {
		least = min(least, there[k]/m.usable)
	}
	most := sum(f.demands)
	if len(f.measures) == 1 || most <= least {
		f.tree.MaxMin(least, f.demands, f.shares)
		return
	}
	f.tree.MaxMin(most, f.demands, f.shares)
	if f.fits(there, dt) {
		return
	}
	for most-least > least/1000 {
		middle := (least + most) / 2
		f.tree.MaxMin(middle, f.demands, f.shares)
		if f.fits(there, dt) {
			least = middle
		} else {
			most = middle
		}
	}
	f.tree.MaxMin(least, f.demands, f.shares)
}

// fits reports whether the shares take no more of any measure than there is.
func (f *fluid) fits(there amounts, dt float64) bool {
	var used amounts
	for i, x := range f.shares {
		takes := f.takes(i, x, dt)
		for k := range f.measures {
			used[k] += takes[k]
			if used[k] > there[k] {
				return false
			}
		}
	}
	return true
}

// takes is the cost of a leaf's share on each measure: its requests first, and then its workers.
func (f *fluid) takes(leaf int, share, dt float64) (sum amounts) {
	take := func(c *chunk, x float64) {
		for k := range f.measures {
			sum[k] += x * c.takes[k]
		}
		share -= x
	}
	for k := range f.queues[leaf] {
		if share <= fluidDust {
			return sum
		}
		c := &f.queues[leaf][k]
		take(c, min(share, c.available(dt)))
	}
	take(&f.works[leaf], share)
	return sum
}

// weigh makes a chunk of a request's cost on each measure.
func (f *fluid) weigh(of func(m measure) float64) (c chunk) {
	for _, m := range f.measures {
		c.left = max(c.left, of(m)/m.usable)
	}
	for k, m := range f.measures {
		if c.left > 0 {
			c.takes[k] = of(m) / c.left
		}
	}
	return c
}

func (f *fluid) chunk(r *Request) chunk {
	c := f.weigh(func(m measure) float64 { return m.of(r) })
	c.expires = r.At + f.Patience
	if r.Run <= 0 {
		return c
	}
	run := r.Run.Seconds()
	for _, m := range f.measures {
		if m.axis == escrow.Slots {
			c.speed = c.left / run
			return c
		}
	}
	if f.Pool.TPM+f.Pool.OTPM > 0 && f.Pool.Accounting == escrow.Production && r.Tokens > 0 {
		c.free = c.left * float64(r.Input) / float64(r.Tokens)
		c.speed = (c.left - c.free) / run
	}
	return c
}

// average is the average request of a leaf.
func (f *fluid) average(leaf int) chunk {
	if len(f.measures) == 1 {
		return f.weigh(func(m measure) float64 { return m.mean(f.plan.average[leaf]) })
	}
	// Its dominant share is the mean of those of requests, not that of a mean request.
	var c chunk
	eachTrial(&f.tree.Leaves[leaf].Work, func(s *sample) {
		r := Request{Tokens: s.input + s.output, Input: s.input, Run: s.run}
		one := f.weigh(func(m measure) float64 { return m.of(&r) })
		c.left += one.left / trials
		for k := range f.measures {
			c.takes[k] += one.left * one.takes[k] / trials
		}
	})
	for k := range f.measures {
		if c.left > 0 {
			c.takes[k] /= c.left
		}
	}
	return c
}

// workersDemand is the demand of a leaf's workers a second at a time.
func (f *fluid) workersDemand(leaf int, now time.Duration) float64 {
	workers := f.workers(leaf, now)
	if workers == 0 {
		return 0
	}
	return closedLoop(workers, f.plan.average[leaf]) * f.works[leaf].left
}

// workers are those of a leaf at a time.
func (p *plan) workers(leaf int, now time.Duration) int {
	for i := range p.phases[leaf] {
		if ph := &p.phases[leaf][i]; ph.Kind == scenario.Backlogged && ph.from <= now && now < ph.to {
			return ph.Workers
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
	served := 0
	for served < len(queue) && amount > fluidDust {
		c := &queue[served]
		x := min(amount, c.available(dt))
		amount -= x
		c.left -= x
		c.free = max(0, c.free-x)
		c.begun = true
		served++
	}
	return keep(queue, served, func(c *chunk) bool { return c.left > fluidDust })
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
			if ph.Kind != scenario.Backlogged {
				continue
			}
			rate := closedLoop(ph.Workers, p.average[leaf]) * m.mean(p.average[leaf])
			for k := range demand.cells {
				from := demand.from + time.Duration(k)*demand.width
				overlap := min(ph.to, from+demand.width) - max(ph.from, from)
				demand.cells[k][leaf] += rate * max(overlap, 0).Seconds()
			}
		}
	}
	for k := range out.cells {
		from := out.from + time.Duration(k)*out.width
		p.tree.MaxMin(p.there(m, from, from+out.width), demand.cells[k], out.cells[k])
	}
}
