package simulate

import (
	"slices"
	"sort"
	"time"

	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
)

// story is the life of one request.
type story struct {
	admitted     time.Duration // when; negative for never
	attempts     int
	refusals     int
	told         time.Duration // when it was told to come back; negative when not
	cameWhenTold time.Duration // when it did; negative when not
}

// promises counts those who came back when they were told to.
type promises struct {
	kept, broken int
	late         []float64
}

// callers are the figures that callers see: waits, refusals and promises.
func (a *audit) callers(f *Figures) []TenantFigures {
	n := len(a.tree.Leaves)
	waits := make([][]float64, n)
	tried := make([]int, n)
	refused := make([]int, n)
	asked := make([]int, n)
	admitted := make([]int, n)
	var kept promises
	gaveUp := 0
	ended := 0
	for i, s := range a.stories(&kept) {
		r := &a.trace.Requests[i]
		if s.admitted >= a.Warmup {
			waits[r.Tenant] = append(waits[r.Tenant], (s.admitted - r.At).Seconds())
			admitted[r.Tenant]++
		}
		if r.At < a.Warmup {
			continue
		}
		asked[r.Tenant]++
		tried[r.Tenant] += s.attempts
		refused[r.Tenant] += s.refusals
		switch {
		case s.admitted >= 0:
			ended++
		case !r.Worker && r.At+a.Patience <= a.Duration:
			ended++
			gaveUp++
		}
	}
	all := slices.Concat(waits...)
	slices.Sort(all)
	f.WaitP50 = quantile(all, 0.5)
	f.WaitP99 = quantile(all, 0.99)
	f.WaitedOver100ms = beyond(all, 0.1)
	f.WaitedOver250ms = beyond(all, 0.25)
	f.Refused = part(total(refused), total(tried))
	f.GivenUp = part(gaveUp, ended)
	f.Requests = Value(total(asked))
	f.Admitted = Value(total(admitted))
	if a.Refuse == scenario.DenyHinted {
		f.PromiseKept = part(kept.kept, kept.kept+kept.broken)
		slices.Sort(kept.late)
		f.PromiseLateP95 = quantile(kept.late, 0.95)
	}

	list := make([]TenantFigures, n)
	windows := float64(len(a.got.cells))
	for i, l := range a.tree.Leaves {
		slices.Sort(waits[i])
		list[i] = TenantFigures{
			Name:     l.Path,
			Weight:   float64(l.Weight),
			Entitled: Value(a.entitled.total(i) / windows),
			Received: Value(a.got.total(i) / windows),
			WaitP50:  quantile(waits[i], 0.5),
			WaitP99:  quantile(waits[i], 0.99),
			Refused:  part(refused[i], tried[i]),
			Admitted: Value(admitted[i]),
		}
	}
	return list
}

// stories follows every request through the trace, and counts the promises
// that were decided after the warm-up.
func (a *audit) stories(p *promises) []story {
	list := make([]story, len(a.trace.Requests))
	for i := range list {
		list[i] = story{admitted: -1, told: -1, cameWhenTold: -1}
	}
	for i := range a.trace.Events {
		e := &a.trace.Events[i]
		s := &list[e.Request]
		switch e.Kind {
		case Offered:
			s.attempts++
			if s.told >= 0 && e.At >= s.told {
				s.cameWhenTold = e.At
			}
		case Admitted:
			s.admitted = e.At
			if came := s.cameWhenTold; came >= a.Warmup {
				p.kept++
				p.late = append(p.late, (e.At - came).Seconds())
			}
		case Refused:
			s.refusals++
			if s.cameWhenTold >= a.Warmup {
				p.broken++
			}
			s.cameWhenTold = -1
			s.told = -1
			if e.Hint > 0 {
				s.told = e.At + e.Hint
			}
		}
	}
	return list
}

// returners are the figures of tenants that turned heavy during the run.
func (a *audit) returners(f *Figures) {
	rate := a.meas[0].perSecond()
	for _, r := range a.returned {
		need := 5 * rate * a.tree.Leaves[r.leaf].Guaranteed
		first := r.until
		worth := r.until
		got := 0.0
		for i := range a.trace.Events {
			e := &a.trace.Events[i]
			req := &a.trace.Requests[e.Request]
			if e.Kind != Admitted || int(req.Tenant) != r.leaf || req.At < r.at || e.At >= r.until {
				continue
			}
			first = min(first, e.At)
			got += a.meas[0].of(req)
			if got >= need {
				worth = e.At
				break
			}
		}
		f.FirstAdmission = most(f.FirstAdmission, Value((first - r.at).Seconds()))
		f.FiveSecondsWorth = most(f.FiveSecondsWorth, Value((worth - r.at).Seconds()))
	}
}

// most is the larger of two figures, of which the first may not be known.
func most(a, b Value) Value {
	if !a.Known() {
		return b
	}
	return max(a, b)
}

// quantile of sorted numbers, by the nearest rank below.
func quantile(sorted []float64, q float64) Value {
	if len(sorted) == 0 {
		return none
	}
	return Value(sorted[int(q*float64(len(sorted)-1))])
}

func part(n, of int) Value {
	if of == 0 {
		return none
	}
	return Value(float64(n) / float64(of))
}

func total(list []int) int {
	n := 0
	for _, x := range list {
		n += x
	}
	return n
}

// beyond is the part of sorted numbers that are larger than x.
func beyond(sorted []float64, x float64) Value {
	return part(len(sorted)-sort.Search(len(sorted), func(i int) bool { return sorted[i] > x }), len(sorted))
}
