package load

import (
	"cmp"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// mostLines is the number of tenants with a line of their own, mostCells the number of points of a line.
	mostLines = 12
	mostCells = 60
)

// course is the course of a run over time, for the charts: cells of equal width, and lines for
// the tenants with the most calls, and one for all others.
type course struct {
	width time.Duration
	lines []courseLine
	line  []int // of each tenant
}

type courseLine struct {
	name  string
	cells []cell
}

// cell is one line in one span of time: the times of calls due in it, and the counts of calls that
// ended in it.
type cell struct {
	good, tokens, refused int64
	ttft, latency         *hdrhistogram.PackedHistogram
}

func newCourse(p *Plan) *course {
	c := &course{line: make([]int, len(p.Tenants))}
	c.width = max(time.Second, (p.end()+mostCells-1)/mostCells).Round(time.Second)
	n := int((p.end() + c.width - 1) / c.width)
	order := make([]int, len(p.Tenants))
	for i := range order {
		order[i] = i
	}
	if len(order) > mostLines+1 {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.Tenants[b].rate(), p.Tenants[a].rate()) })
		slices.Sort(order[:mostLines])
	}
	for k, i := range order {
		if k >= mostLines && len(order) > mostLines+1 {
			c.line[i] = mostLines
			continue
		}
		c.line[i] = k
		c.lines = append(c.lines, courseLine{p.Tenants[i].Name, make([]cell, n)})
	}
	if len(order) > mostLines+1 {
		c.lines = append(c.lines, courseLine{"all others", make([]cell, n)})
	}
	return c
}

// rate is the number of calls a second, bursts included.
func (t *Tenant) rate() float64 {
	if t.Burst.Every == 0 {
		return t.Rate
	}
	return t.Rate + float64(t.Burst.Size)/t.Burst.Every.Seconds()
}

// at is the cell of a time, or nil after the end.
func (c *course) at(tenant int, at time.Duration) *cell {
	cells := c.lines[c.line[tenant]].cells
	if k := int(at / c.width); at >= 0 && k < len(cells) {
		return &cells[k]
	}
	return nil
}

// ended counts a call in the cell of its end.
func (c *course) ended(s *Sample) {
	at := c.at(s.Tenant, s.End)
	if at == nil {
		return
	}
	switch s.Outcome {
	case OK:
		at.good++
		at.tokens += s.Usage.Input + s.Usage.Output
	case Refused:
		at.refused++
	}
}

// due measures a call in the cell in which it was due.
func (c *course) due(s *Sample) {
	at := c.at(s.Tenant, s.At)
	if at == nil {
		return
	}
	if s.Stream && s.First != never && (s.Outcome == OK || s.Outcome == Broken) {
		at.ttft = add(at.ttft, s.First-s.At)
	}
	if s.End != never && (s.Outcome == OK || s.TimedOut) {
		at.latency = add(at.latency, s.End-s.At)
	}
}

func add(h *hdrhistogram.PackedHistogram, d time.Duration) *hdrhistogram.PackedHistogram {
	if h == nil {
		h = hdrhistogram.NewPacked(shortest, longest, 2)
	}
	record(h, d)
	return h
}
