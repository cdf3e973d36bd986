package simulate

import (
	"maps"
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/placement"
	"github.com/llmgov/llmgov/governor"
)

// loss is the time for which an upstream is gone.
type loss struct {
	upstream int
	from, to time.Duration
}

// noteUpstream notes where a call begins.
func (w *world) noteUpstream(c *call) {
	if len(w.Pool.Upstreams) == 0 {
		return
	}
	if w.trace.Upstreams == nil {
		w.trace.Upstreams = map[int32]int{}
	}
	name := c.lease.Upstream()
	w.trace.Upstreams[c.id] = slices.IndexFunc(w.Pool.Upstreams, func(u placement.Spec) bool { return u.Name == name })
}

// lose closes an upstream, and breaks off the calls that run there.
func (w *world) lose(s *site, l *loss) {
	var there []*call
	for _, id := range slices.Sorted(maps.Keys(s.calls)) {
		if c := s.calls[id]; !c.queued && w.trace.Upstreams[id] == l.upstream {
			there = append(there, c)
		}
	}
	w.cuts = append(w.cuts, governor.Cut{Upstream: w.Pool.Upstreams[l.upstream].Name, Until: epoch.Add(l.to)})
	s.gate.(*governed).Throttle(poolName, w.cuts)
	for _, c := range there {
		taken := w.breakOff(c)
		c.gone = true
		s.drop(c)
		s.gate.end(c, taken, false)
		w.lost(c)
	}
}

// open is how much of a measure the upstreams that are not lost have from a time to a time, in all no more than the pool.
func (p *plan) open(m measure, from, to time.Duration) float64 {
	sum := 0.0
	for i := range p.Pool.Upstreams {
		sum += p.openAt(m, i, from, to)
	}
	return min(sum, m.perSecond()*(to-from).Seconds())
}

// openAt is how much of a measure an upstream has from a time to a time: as much as the pool, if it has no limit itself.
func (p *plan) openAt(m measure, upstream int, from, to time.Duration) float64 {
	open := to - from
	for _, l := range p.losses {
		if l.upstream == upstream {
			open -= max(0, min(to, l.to)-max(from, l.from))
		}
	}
	limit := m.limitOf(&p.Pool.Upstreams[upstream])
	if limit == 0 {
		return m.perSecond() * open.Seconds()
	}
	return m.usable / m.limit * limit / escrow.Window.Seconds() * open.Seconds()
}

// limitOf is the limit of an upstream, as measures have them; 0 is none.
func (m measure) limitOf(u *placement.Spec) float64 {
	if m.axis == escrow.Slots {
		return float64(u.Concurrency) * escrow.Window.Seconds()
	}
	return float64(*u.Amount(placement.Axes[m.axis]))
}
