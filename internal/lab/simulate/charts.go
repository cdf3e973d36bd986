package simulate

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// Charts are the courses over time that a report draws, of one seed.
type Charts struct {
	Seed uint64 `json:"seed"`
	// Times are the middles of the buckets, in seconds.
	Times []float64 `json:"times"`
	// Unit is the unit of Received and Entitled.
	Unit string `json:"unit"`
	// Lines are tenants: the twelve that are entitled to most, and the others as
	// one.
	Lines []Line `json:"lines"`
	// Limits are the axes with a limit.
	Limits []LimitLine `json:"limits"`
	// Returns are the times at which a tenant turned heavy.
	Returns []float64 `json:"returns"`
}

// Line is one tenant's course, by bucket.
type Line struct {
	Name     string  `json:"name"`
	Received []Value `json:"received"`
	Entitled []Value `json:"entitled"`
	WaitP50  []Value `json:"wait_p50"`
	WaitP99  []Value `json:"wait_p99"`
}

// LimitLine is how full one axis was: the largest of its rolling sum over each
// bucket, as a part of the limit.
type LimitLine struct {
	Name string  `json:"name"`
	Used []Value `json:"used"`
}

// MostLines is how many tenants are drawn one by one.
const MostLines = 12

// charts draws the run of this audit.
func (a *audit) charts(tenants []TenantFigures) Charts {
	width := max(5*time.Second, (a.Duration / 240).Truncate(time.Second))
	c := Charts{Seed: a.seed, Unit: "part of " + a.meas[0].axis.String(), Returns: []float64{}}
	groups := groupLeaves(tenants)
	got := newGrid(0, width, a.Duration, len(groups))
	entitled := newGrid(0, width, a.Duration, len(groups))
	for k := range got.cells {
		c.Times = append(c.Times, (time.Duration(k)*width + width/2).Seconds())
	}
	m := a.meas[0]
	perCell := m.limit * width.Seconds() / escrow.Window.Seconds()
	fine := newGrid(0, width, a.Duration, len(a.tree.Leaves))
	a.received(a.trace, m, fine)
	got.gather(fine, groups)
	var ideal []*grid
	for range a.meas {
		ideal = append(ideal, newGrid(0, width, a.Duration, len(a.tree.Leaves)))
	}
	a.fluid(a.trace.Requests, a.meas, ideal)
	entitled.gather(ideal[0], groups)
	waits := a.waitsBy(got, groups)
	for g, members := range groups {
		l := Line{Name: nameOf(members, tenants)}
		for k := range got.cells {
			l.Received = append(l.Received, point(Value(got.cells[k][g]/perCell)))
			l.Entitled = append(l.Entitled, point(Value(entitled.cells[k][g]/perCell)))
			w := waits[k][g]
			slices.Sort(w)
			l.WaitP50 = append(l.WaitP50, point(quantile(w, 0.5)))
			l.WaitP99 = append(l.WaitP99, point(quantile(w, 0.99)))
		}
		c.Lines = append(c.Lines, l)
	}
	for _, m := range a.meas {
		c.Limits = append(c.Limits, a.limitLine(m, got))
	}
	for _, r := range a.returned {
		c.Returns = append(c.Returns, r.at.Seconds())
	}
	slices.Sort(c.Returns)
	return c
}

// point is a figure with no more digits than a screen shows.
func point(v Value) Value { return Value(math.Round(float64(v)*1e4) / 1e4) }

// groupLeaves are the leaves that are drawn one by one, in the order of the
// scenario, and the rest together.
func groupLeaves(tenants []TenantFigures) [][]int {
	order := make([]int, len(tenants))
	for i := range order {
		order[i] = i
	}
	single := order
	var rest []int
	if len(order) > MostLines+1 {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(tenants[b].Entitled, tenants[a].Entitled) })
		single = order[:MostLines]
		rest = order[MostLines:]
		slices.Sort(single)
	}
	var groups [][]int
	for _, i := range single {
		groups = append(groups, []int{i})
	}
	if len(rest) > 0 {
		groups = append(groups, rest)
	}
	return groups
}

func nameOf(members []int, tenants []TenantFigures) string {
	if len(members) == 1 {
		return tenants[members[0]].Name
	}
	return "all others"
}

// gather sums the leaves of a grid into groups.
func (g *grid) gather(fine *grid, groups [][]int) {
	for k, row := range fine.cells {
		for i, members := range groups {
			for _, leaf := range members {
				g.cells[k][i] += row[leaf]
			}
		}
	}
}

// waitsBy collects waits by bucket of the admission and group.
func (a *audit) waitsBy(buckets *grid, groups [][]int) [][][]float64 {
	groupOf := make([]int, len(a.tree.Leaves))
	for g, members := range groups {
		for _, leaf := range members {
			groupOf[leaf] = g
		}
	}
	waits := make([][][]float64, len(buckets.cells))
	for k := range waits {
		waits[k] = make([][]float64, len(groups))
	}
	for i := range a.trace.Events {
		e := &a.trace.Events[i]
		if e.Kind != Admitted {
			continue
		}
		if k, ok := buckets.window(e.At); ok {
			r := &a.trace.Requests[e.Request]
			g := groupOf[r.Tenant]
			waits[k][g] = append(waits[k][g], (e.At - r.At).Seconds())
		}
	}
	return waits
}

// limitLine is the largest use of an axis in each bucket.
func (a *audit) limitLine(m measure, buckets *grid) LimitLine {
	l := LimitLine{Name: m.axis.String(), Used: make([]Value, len(buckets.cells))}
	limit := m.limit
	see := func(at time.Duration, sum int64) {
		if k, ok := buckets.window(at); ok {
			l.Used[k] = max(l.Used[k], point(Value(float64(sum)/limit)))
		}
	}
	if m.axis == escrow.Slots {
		limit = float64(a.Pool.Concurrency)
		mostRunning(a.trace, see)
	} else {
		rollingMax(a.trace, m.axis, see)
	}
	return l
}
