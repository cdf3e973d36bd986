package simulate

import (
	"math"
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
)

// TenantFigures are the results of one leaf. Entitled and Received are parts of
// the limit: the leaf's share by the fluid oracle, and its usage.
type TenantFigures struct {
	Name     string  `json:"name"`
	Weight   float64 `json:"weight"`
	Entitled Value   `json:"entitled"`
	Received Value   `json:"received"`
	WaitP50  Value   `json:"wait_p50_seconds"`
	WaitP99  Value   `json:"wait_p99_seconds"`
	Refused  Value   `json:"refused"`
	Admitted Value   `json:"admitted"`
}

// audit computes the figures of one run from its trace.
type audit struct {
	*plan
	trace *Trace
	meas  []measure
	// By leaf and window of 60 s after the warm-up: parts of the limit's minute.
	got, entitled *grid
	whole         *wholeCalls // nil if calls are not whole
}

func newAudit(p *plan, t *Trace) *audit {
	a := &audit{plan: p, trace: t, meas: measures(&p.Pool)}
	var got, entitled []*grid // by measure
	for _, m := range a.meas {
		g := a.windows()
		p.received(t, m, g)
		got = append(got, g)
		entitled = append(entitled, a.windows())
	}
	f := p.newFluid(a.meas, entitled)
	if !p.baseline {
		f.whole = p.newWholeCalls(a.meas)
	}
	f.run(t.Requests)
	a.whole = f.whole
	a.got = a.dominant(got)
	a.entitled = a.dominant(entitled)
	return a
}

// windows are those of 60 s that figures are taken over; of a shorter run, one.
func (p *plan) windows() *grid {
	return newGrid(p.Warmup, p.window(), p.Duration, len(p.tree.Leaves))
}

// window is the length of one.
func (p *plan) window() time.Duration { return min(escrow.Window, p.Duration-p.Warmup) }

// capacity is a limit over one window.
func (a *audit) capacity(m measure) float64 {
	return m.limit * a.window().Seconds() / escrow.Window.Seconds()
}

func (g *grid) scale(by float64) {
	for _, row := range g.cells {
		for i := range row {
			row[i] *= by
		}
	}
}

// dominant makes one grid of those of each measure: a leaf's amount is the part of the limit that it
// has most of.
func (a *audit) dominant(of []*grid) *grid {
	all := a.windows()
	for k, g := range of {
		g.scale(1 / a.capacity(a.meas[k]))
		all.raise(g)
	}
	return all
}

// raise lifts every cell to that of another grid.
func (g *grid) raise(to *grid) {
	for k, row := range to.cells {
		for i, x := range row {
			g.cells[k][i] = max(g.cells[k][i], x)
		}
	}
}

// figures are all of them.
func (a *audit) figures() (Figures, []TenantFigures) {
	f := unknown()
	a.shares(&f)
	a.limits(&f)
	a.dominantShares(&f)
	a.returners(&f)
	tenants := a.callers(&f)
	f.FirstTokenP95 = a.firstTokens()
	a.upstreams(&f)
	f.StoreRoundTrips = a.roundTrips(f.Admitted)
	return f, tenants
}

// firstTokens is the 95th percentile of how long calls waited for their first token once they were admitted.
func (a *audit) firstTokens() Value {
	sent := make([]time.Duration, len(a.trace.Requests))
	var waits []float64
	for i := range a.trace.Events {
		switch e := &a.trace.Events[i]; {
		case e.Kind == Admitted:
			sent[e.Request] = e.At
		case e.Kind == First && e.At >= a.Warmup:
			waits = append(waits, (e.At - sent[e.Request]).Seconds())
		}
	}
	slices.Sort(waits)
	return quantile(waits, 0.95)
}

// roundTrips is how often the store was asked per 1000 requests that were admitted.
func (a *audit) roundTrips(admitted Value) Value {
	n := 0
	for _, b := range a.trace.Beats {
		if b.At >= a.Warmup {
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return 1000 * Value(n) / admitted
}

// shares computes the figures of how the limit was divided.
func (a *audit) shares(f *Figures) {
	n := float64(len(a.got.cells))
	f.Misallocation = 0
	f.MisallocationMax = 0
	if !a.baseline {
		f.MisallocationOfUsed = 0
	}
	used := a.entitledOfUsed()
	for k, got := range a.got.cells {
		d := Value(distance1(got, a.entitled.cells[k]))
		f.Misallocation += d / Value(n)
		f.MisallocationMax = max(f.MisallocationMax, d)
		f.MisallocationOfUsed += Value(distance1(got, used.cells[k]) / n)
	}
	if a.whole != nil {
		a.whole.received.scale(1 / a.capacity(a.meas[0]))
		f.MisallocationWhole = 0
		for k, row := range a.whole.received.cells {
			f.MisallocationWhole += Value(distance1(row, a.entitled.cells[k]) / n)
		}
	}
	if len(a.meas) == 1 {
		best := a.windows()
		a.clairvoyant(a.trace.Requests, a.meas[0], best)
		best.scale(1 / a.capacity(a.meas[0]))
		f.MisallocationClairvoyant = 0
		f.FluidMisallocationClairvoyant = 0
		for k := range best.cells {
			f.MisallocationClairvoyant += Value(distance1(a.got.cells[k], best.cells[k]) / n)
			f.FluidMisallocationClairvoyant += Value(distance1(a.entitled.cells[k], best.cells[k]) / n)
		}
	}
	a.longRun(f)
}

// entitledOfUsed are the shares by the fluid oracle if it has no more to give
// than was really used. So it tells unfairness from idle capacity.
func (a *audit) entitledOfUsed() *grid {
	got := 0.0
	entitled := 0.0
	for i := range a.tree.Leaves {
		got += a.got.total(i)
		entitled += a.entitled.total(i)
	}
	if len(a.meas) > 1 || got >= entitled || got == 0 || a.baseline {
		return a.entitled
	}
	m := a.meas[0]
	m.usable *= got / entitled
	slower := a.windows()
	a.fluid(a.trace.Requests, []measure{m}, []*grid{slower})
	for k, row := range slower.cells { // windows differ a little in usage
		by := 0.0
		if s := sum(row); s > 0 {
			by = sum(a.got.cells[k]) / s
		}
		for i := range row {
			row[i] *= by
		}
	}
	return slower
}

// distance1 is half the L1 distance from b, as a part of b's sum.
func distance1(a, b []float64) float64 {
	d := 0.0
	for i := range a {
		d += math.Abs(a[i] - b[i])
	}
	if total := sum(b); total > 0 {
		return d / 2 / total
	}
	return 0
}

// longRun compares sums over all windows. Leaves that were to get less than
// some thirty requests are left out: one more or less would be a great deviation.
func (a *audit) longRun(f *Figures) {
	const enough = 30
	deviation := 0.0
	sumX := 0.0
	sumXX := 0.0
	n := 0.0
	for i := range a.tree.Leaves {
		one := 0.0
		for _, m := range a.meas {
			one = max(one, m.mean(a.typical(i))/a.capacity(m))
		}
		e := a.entitled.total(i)
		if e <= enough*one {
			continue
		}
		x := a.got.total(i) / e
		deviation = max(deviation, math.Abs(x-1))
		sumX = sumX + x
		sumXX = sumXX + x*x
		n = n + 1
	}
	if n > 0 && sumXX > 0 {
		f.LongRunDeviation = Value(deviation)
		f.Jain = Value(sumX * sumX / (n * sumXX))
	}
}

// limits are the figures of how much was used, and whether too much.
func (a *audit) limits(f *Figures) {
	span := newGrid(a.Warmup, a.Duration-a.Warmup, a.Duration, len(a.tree.Leaves))
	for _, m := range a.meas {
		clear(span.cells[0])
		a.received(a.trace, m, span)
		used := Value(sum(span.cells[0]) / (a.there(m, a.Warmup, a.Duration) * m.limit / m.usable))
		f.Used[m.axis] = used
		if m.axis == escrow.Slots {
			f.Fullest[m.axis] = Value(mostRunning(a.trace, nil)) / Value(a.Pool.Concurrency)
		} else {
			f.Fullest[m.axis] = Value(rollingMax(a.trace, m.axis, nil)) / Value(m.limit)
		}
		if !f.Utilization.Known() || used > f.Utilization {
			f.Utilization = used
		}
	}
}

// dominantShares compares leaves that are backlogged from start to end.
func (a *audit) dominantShares(f *Figures) {
	if len(a.meas) < 2 {
		return
	}
	var shares []float64
	for i, phases := range a.phases {
		if len(phases) == 1 && phases[0].Kind == scenario.Backlogged {
			weight := a.tree.Leaves[i].Guaranteed * float64(len(a.phases)) // 1 is the mean
			shares = append(shares, a.got.total(i)/float64(len(a.got.cells))/weight)
		}
	}
	if len(shares) > 0 {
		f.DominantMin = Value(slices.Min(shares))
		f.DominantMax = Value(slices.Max(shares))
		f.DominantRatio = f.DominantMin / f.DominantMax
	}
}
