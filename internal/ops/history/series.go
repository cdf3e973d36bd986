package history

import (
	"cmp"
	"slices"
	"time"
)

// Series is the last hour of a pool. All lists of points are as long as Times.
type Series struct {
	Times   []time.Time // of the recorded steps, oldest first
	Points  []PoolPoint
	Tenants []TenantSeries // that received most, the first most
	// Active is the number of tenants that did anything, and Omitted the number of those beyond MaxPairs
	// in the last step.
	Active, Omitted int
}

// TenantSeries is the last hour of a tenant in a pool.
type TenantSeries struct {
	Name               string
	Received, Entitled []float64
	Refused, Failed    []int64
}

// Pool returns the last hour of a pool: with the tenants in names, or, if names is empty, with the
// top that received most.
func (b *Book) Pool(now time.Time, name string, names []string, top int) Series {
	var s Series
	p := b.pools[name]
	if p == nil {
		return s
	}
	var ticks []int64
	newest := tickOf(now)
	for tick := newest - Points + 1; tick <= newest; tick++ {
		point := p.ring.at(tick)
		if !point.Known {
			continue
		}
		ticks = append(ticks, tick)
		s.Times = append(s.Times, time.Unix(tick*int64(Step/time.Second), 0).UTC())
		s.Points = append(s.Points, point)
	}
	s.Active = p.active()
	s.Omitted = p.omitted
	if len(names) == 0 {
		names = p.top(ticks, top)
	}
	for _, name := range names {
		s.Tenants = append(s.Tenants, p.tenants[name].series(name, ticks))
	}
	return s
}

// active counts the tenants that did anything within the hour.
func (p *pool) active() (n int) {
	for _, t := range p.tenants {
		if t.points != nil {
			n++
		}
	}
	return n
}

// top names the tenants that received most, the one with most first.
func (p *pool) top(ticks []int64, most int) []string {
	type sum struct {
		name     string
		received int64
	}
	var sums []sum
	for name, t := range p.tenants {
		if t.points == nil {
			continue
		}
		one := sum{name: name}
		for _, tick := range ticks {
			one.received += int64(t.points.at(tick).received)
		}
		sums = append(sums, one)
	}
	slices.SortFunc(sums, func(a, b sum) int {
		return cmp.Or(cmp.Compare(b.received, a.received), cmp.Compare(a.name, b.name))
	})
	var names []string
	for _, s := range sums[:min(most, len(sums))] {
		names = append(names, s.name)
	}
	return names
}

// series reads the points of a tenant; a tenant that did nothing (nil) has zeros.
func (t *tenant) series(name string, ticks []int64) TenantSeries {
	s := TenantSeries{Name: name}
	for _, tick := range ticks {
		var point tenantPoint
		if t != nil && t.points != nil {
			point = t.points.at(tick)
		}
		s.Received = append(s.Received, ratio(point.received))
		s.Entitled = append(s.Entitled, ratio(point.entitled))
		s.Refused = append(s.Refused, int64(point.refused))
		s.Failed = append(s.Failed, int64(point.failed))
	}
	return s
}
