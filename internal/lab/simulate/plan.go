package simulate

import (
	"cmp"
	"slices"
	"time"

	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
)

// phase is a leaf's load from a time to a time.
type phase struct {
	from, to time.Duration
	scenario.Load
}

// change is one event at the time drawn for it.
type change struct {
	at     time.Duration
	leaf   int // -1 for all
	load   *scenario.Load
	factor float64
	knee   *int64
	outage *scenario.Outage
	loss   *scenario.Loss
}

// outage is one of a node.
type outage struct {
	*scenario.Outage
	from, to time.Duration
}

// plan is a scenario with all that a seed decides beforehand: what each leaf
// does when, and from when on requests cost more.
type plan struct {
	*scenario.Scenario
	seed     uint64
	tree     *Tree
	average  []averages // by leaf
	phases   [][]phase  // by leaf
	factors  []change   // cost factors, in order
	outages  []outage   // of nodes, in order
	losses   []loss     // of upstreams, in order
	slots    []capacity // in order
	returned []returner
	baseline bool // it is played by one, of which fewer figures are shown
}

// returner is a leaf that turns to backlogged in the middle of a run.
type returner struct {
	leaf      int
	at, until time.Duration
}

func newPlan(s *scenario.Scenario, seed uint64) *plan {
	p := &plan{Scenario: s, seed: seed, tree: NewTree(s.Tenants)}
	changes := p.changes()
	p.slots = p.capacities(changes)
	known := map[*scenario.Work]averages{}
	for i := range p.tree.Leaves {
		p.average = append(p.average, p.averageOf(i, known))
		p.phases = append(p.phases, p.phasesOf(i, changes))
	}
	for _, c := range changes {
		if c.factor > 0 {
			p.factors = append(p.factors, c)
		}
		if c.outage != nil {
			p.outages = append(p.outages, outage{c.outage, c.at, c.at + c.outage.For})
		}
		if c.loss != nil {
			p.losses = append(p.losses, loss{c.loss.Upstream, c.at, c.at + c.loss.For})
		}
	}
	return p
}

// averageOf shares the trials between tenants that have the same work.
func (p *plan) averageOf(leaf int, known map[*scenario.Work]averages) averages {
	w := &p.tree.Leaves[leaf].Work
	for other, a := range known {
		if other.Cost == w.Cost && other.Service == w.Service && slices.Equal(other.Classes, w.Classes) {
			return a
		}
	}
	a := averagesOf(w)
	known[w] = a
	return a
}

// typical is the average request of a leaf, also of one whose calls are recorded.
func (p *plan) typical(leaf int) averages {
	a := p.average[leaf]
	calls := p.tree.Leaves[leaf].Load.Calls
	if len(calls) == 0 {
		return a
	}
	a.input = 0
	output := 0.0
	for i := range calls {
		a.input += float64(calls[i].Input) / float64(len(calls))
		output += float64(calls[i].Output) / float64(len(calls))
	}
	a.tokens = a.input + output
	return a
}

// changes draws the times of all events, in order.
func (p *plan) changes() []change {
	index := map[string]int{"": -1}
	for i, l := range p.tree.Leaves {
		index[l.Path] = i
	}
	rng := randomStream(p.seed, 0, streamEvents)
	var all []change
	for _, e := range p.Events {
		for base := time.Duration(0); e.At.From+base < p.Duration; base += e.Every {
			at := e.At.Draw(rng) + base
			all = append(all, change{at, index[e.Tenant], e.Load, e.CostFactor, e.Knee, e.Outage, e.Loss})
			if e.Every == 0 {
				break
			}
		}
	}
	slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	return all
}

// phasesOf cuts a leaf's time at the changes of its load.
func (p *plan) phasesOf(leaf int, changes []change) []phase {
	list := []phase{{0, p.Duration, p.tree.Leaves[leaf].Load}}
	for _, c := range changes {
		if c.leaf != leaf || c.load == nil || c.at >= p.Duration {
			continue
		}
		last := &list[len(list)-1]
		last.to = c.at
		returns := c.load.Kind == scenario.Backlogged && last.Kind != scenario.Backlogged
		list = append(list, phase{c.at, p.Duration, *c.load})
		if returns && c.at >= p.Warmup {
			p.returned = append(p.returned, returner{leaf: leaf, at: c.at})
		}
	}
	for i := range p.returned {
		for _, ph := range list {
			if r := &p.returned[i]; r.leaf == leaf && r.at == ph.from {
				r.until = ph.to
			}
		}
	}
	var out []phase
	rng := randomStream(p.seed, leaf, streamPhases)
	for _, ph := range list {
		if ph.Kind == scenario.OnOff {
			out = append(out, ph.bursts(between(rng, 0, ph.On+ph.Off))...)
			continue
		}
		out = append(out, ph)
	}
	return out
}

// bursts are the on phases of an on-off load, as open loads.
func (ph phase) bursts(offset time.Duration) []phase {
	if ph.Start >= 0 {
		offset = ph.Start
	}
	var out []phase
	for at := ph.from + offset; at < ph.to; at += ph.On + ph.Off {
		burst := phase{at, min(at+ph.On, ph.to), ph.Load}
		burst.Kind = scenario.Open
		out = append(out, burst)
	}
	return out
}

// factor multiplies the costs of a leaf's requests at a time.
func (p *plan) factor(leaf int, at time.Duration) float64 {
	f := 1.0
	for _, c := range p.factors {
		if c.at <= at && (c.leaf < 0 || c.leaf == leaf) {
			f = c.factor
		}
	}
	return f
}

// parted says whether a node is cut off from the store at a time.
func (p *plan) parted(node int, at time.Duration) bool {
	for _, o := range p.outages {
		if !o.Crash && o.Node == node && o.from <= at && at < o.to {
			return true
		}
	}
	return false
}

// perSecond is how many requests an open load makes, given the cost of one.
func perSecond(l *scenario.Load, a averages) float64 {
	if l.RequestsPerSecond > 0 {
		return l.RequestsPerSecond
	}
	return l.TokensPerSecond / a.tokens
}
