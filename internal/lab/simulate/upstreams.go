package simulate

import (
	"maps"
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/placement"
	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
)

// loss is the time for which an upstream is gone.
type loss struct {
	upstream int
	from, to time.Duration
}

// openUpstreams puts the limits of a pool's upstreams in force.
func (s *site) openUpstreams(p *scenario.Pool) {
	if len(p.Upstreams) == 0 {
		return
	}
	config := placement.Config{Upstreams: p.Upstreams, Holds: p.Accounting != escrow.AdmitMax}
	s.books = s.books.Next(epoch, config, func(string) placement.Account {
		return placement.Account{Set: limits.New(false, nil)}
	})
	for _, u := range s.books.List {
		own := u.Spec.Limits()
		for k, limit := range own.Minute {
			own.Minute[k] = p.Usable(limit)
		}
		u.Limits.Configure(epoch, own, 0)
	}
	s.calls = map[int32]*call{}
	s.pool.(*escrow.Pool).SetUpstreams(s.books, escrow.Moved{})
}

// noteUpstream notes where a call begins.
func (w *world) noteUpstream(c *call) {
	books := c.site.books
	if books == nil {
		return
	}
	if w.trace.Upstreams == nil {
		w.trace.Upstreams = map[int32]int{}
	}
	w.trace.Upstreams[c.id] = slices.Index(books.List, books.At(c.handle.Slot))
}

// lose breaks off the calls that run at an upstream, and closes it.
func (w *world) lose(s *site, l *loss) {
	s.books.List[l.upstream].Closed = epoch.Add(l.to)
	for _, id := range slices.Sorted(maps.Keys(s.calls)) {
		c := s.calls[id]
		if c.queued || w.trace.Upstreams[id] != l.upstream {
			continue
		}
		taken := w.breakOff(c)
		c.gone = true
		s.guess.cut(c, w.produced(c))
		s.drop(c)
		s.pool.Settle(w.clock(), c.handle, c.cost(taken))
		w.lost(c)
	}
	w.pump(s)
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
